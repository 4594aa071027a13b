"""Which instances are orphans, and which of them are ended now. Pure.

An instance that nobody claims costs money; one that is ended by mistake is a machine lost. So it
must carry this cluster's tag and a token in our form, be old, be without a Machine in two scans,
and few of its kind may look so: when many do it is the Machines that we do not see.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from kubenode.providers.instances import Instance, machine_uid

OLD_ENOUGH = timedelta(seconds=1800)
SHARE_PERCENT = 20
AT_ONCE = 5


@dataclass(frozen=True, slots=True)
class Claims:
    """What Machines have: their UIDs, on the tokens of what was made for them, and provider IDs."""

    uids: Collection[str]
    provider_ids: Collection[str]

    def has(self, instance: Instance) -> bool:
        return machine_uid(instance.token) in self.uids or instance.provider_id in self.provider_ids


@dataclass(frozen=True, slots=True)
class Found:
    """orphans  provider IDs, for the next scan
    ended    those to end now, the oldest first
    spared   why none is, "" if that is as it should be
    """

    orphans: frozenset[str]
    ended: tuple[Instance, ...] = ()
    spared: str = ""


def step(
    listed: Sequence[Instance],
    claims: Claims,
    before: Collection[str],
    now: datetime,
    frozen: str = "",
) -> Found:
    """before: orphans of the scan before this one, of this provider."""
    unclaimed = [one for one in listed if not claims.has(one)]
    old = [one for one in unclaimed if _old(one, now)]
    orphans = frozenset(one.provider_id for one in old)
    due = [one for one in old if one.provider_id in before]
    if not due:
        return Found(orphans)
    if frozen:
        return Found(orphans, spared=frozen)
    if len(unclaimed) > max(1, len(listed) * SHARE_PERCENT // 100):
        why = f"{len(unclaimed)} of {len(listed)} instances have no Machine, over {SHARE_PERCENT}%"
        return Found(orphans, spared=f"{why}: none is ended")
    due.sort(key=lambda one: (one.created_at or now, one.provider_id))
    return Found(orphans, ended=tuple(due[:AT_ONCE]))


def _old(instance: Instance, now: datetime) -> bool:
    """One whose age or token nobody knows is nobody's to end."""
    at = instance.created_at
    return bool(machine_uid(instance.token)) and at is not None and now - at > OLD_ENOUGH
