"""Decide which instances are orphans, and for how long nothing of them was in the cluster. Pure.

An unclaimed instance costs money, but ending one by mistake loses a machine. A restore of etcd from
a backup makes orphans of all machines made since, although they are in service. An orphan is
therefore reported to people. It must have this cluster's tag, a token in our form and a known age
above OLD_ENOUGH.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from kubenode.providers.instances import MACHINE_TAG, Instance, machine_uid
from machine.orphans.model import OrphanRecord

OLD_ENOUGH = timedelta(seconds=1800)
"""Age above which an instance may be an orphan."""


@dataclass(frozen=True, slots=True)
class Claims:
    """UIDs and provider IDs of all Machines."""

    uids: Collection[str]
    provider_ids: Collection[str]

    def has(self, instance: Instance) -> bool:
        """Return whether a Machine claims the instance, by the UID in its token or by its provider
        ID.
        """
        return machine_uid(instance.token) in self.uids or instance.provider_id in self.provider_ids


def candidates(listed: Iterable[Instance], claims: Claims, now: datetime) -> list[Instance]:
    """Return the old instances that no Machine claims, the oldest first."""
    unclaimed = [
        instance for instance in listed if not claims.has(instance) and _old(instance, now)
    ]
    return sorted(
        unclaimed, key=lambda instance: (instance.created_at or now, instance.provider_id)
    )


def _old(instance: Instance, now: datetime) -> bool:
    """Return whether the instance is old. One with unknown age or token is not."""
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
    """Return the records of one provider after a scan.

    orphans: instances that no Machine claims, confirmed by the API server.
    known: the records so far, by provider ID.
    sighting: returns what of an instance is in the cluster now, "" for nothing.
    waited: monotonic seconds since the last successful scan.
    """
    return [_recorded(provider, instance, known, sighting, waited, now) for instance in orphans]


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
    present = sighting(instance)
    absent = 0.0 if present else before.absent_seconds + waited
    return msgspec.structs.replace(before, sighting=present, absent_seconds=absent)
