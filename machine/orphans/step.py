"""Which instances are orphans, and for how long nothing of them was in the cluster. Pure.

An instance that nobody claims costs money; one that is ended by mistake is a machine lost. Whoever
restores etcd from a backup makes orphans of all machines that were made since: they run, and serve.
So an orphan is a finding for people. It must carry this cluster's tag and a token in our form, and
be old.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from kubenode.providers.instances import MACHINE_TAG, Instance, machine_uid
from machine.orphans.model import OrphanRecord

OLD_ENOUGH = timedelta(seconds=1800)


@dataclass(frozen=True, slots=True)
class Claims:
    """What Machines have: their UIDs, on the tokens of what was made for them, and provider IDs."""

    uids: Collection[str]
    provider_ids: Collection[str]

    def has(self, instance: Instance) -> bool:
        return machine_uid(instance.token) in self.uids or instance.provider_id in self.provider_ids


def candidates(listed: Iterable[Instance], claims: Claims, now: datetime) -> list[Instance]:
    """Old ones that no Machine claims, the oldest first."""
    found = [one for one in listed if not claims.has(one) and _old(one, now)]
    return sorted(found, key=lambda one: (one.created_at or now, one.provider_id))


def _old(instance: Instance, now: datetime) -> bool:
    """One whose age or token nobody knows is nobody's to judge."""
    at = instance.created_at
    return bool(machine_uid(instance.token)) and at is not None and now - at > OLD_ENOUGH


def step(
    provider: str,
    orphans: Iterable[Instance],
    known: Mapping[str, OrphanRecord],
    sighting: Callable[[Instance], str],
    waited: float,
    now: datetime,
) -> list[OrphanRecord]:
    """The records of one provider after a look.

    orphans   what no Machine claims, the API server asked
    known     records so far, by provider ID
    sighting  what of an instance is in the cluster now, "" for nothing
    waited    seconds since the last look that went well, by our own clock
    """
    return [_recorded(provider, one, known, sighting, waited, now) for one in orphans]


def _recorded(
    provider: str,
    instance: Instance,
    known: Mapping[str, OrphanRecord],
    sighting: Callable[[Instance], str],
    waited: float,
    now: datetime,
) -> OrphanRecord:
    before = known.get(instance.provider_id)
    if before is None:
        before = OrphanRecord(
            provider,
            instance.provider_id,
            instance.tags.get(MACHINE_TAG, ""),
            machine_uid(instance.token),
            instance.addresses,
            instance.created_at,
            now,
        )
        waited = 0.0
    seen = sighting(instance)
    absent = 0.0 if seen else before.absent_seconds + waited
    return msgspec.structs.replace(before, sighting=seen, absent_seconds=absent)
