"""Determine which entries can be removed from the log, because the Permits show them to every
replica.

A replica whose Permits are older than the log's floor answers nothing, so no replica misses a
removed entry.
"""

from collections import deque
from dataclasses import dataclass, field

from defender.decision.ledger import LedgerPermit, PermitLedger
from defender.replicas.redis.log import LogChanges
from defender.replicas.redis.merge import version
from kubenode.api.v1alpha1 import Permit
from kubenode.runtime.kube.informer import Informer

KEEP_SECONDS = 60.0
"""Seconds for which entries stay, so that replicas that follow slowly need no full list."""
EVERY_SECONDS = 10.0
"""Least seconds between two removals."""
AT_ONCE = 500
"""Greatest number of entries that one removal takes."""


@dataclass(frozen=True, slots=True)
class Old:
    """Entries to remove. `names` has the version that each had at most."""

    names: dict[str, int]
    floor: int


@dataclass(slots=True)
class Trimming:
    """Tracker of entries of the log that can be removed."""

    ledger: PermitLedger
    permits: Informer[Permit]
    entries: dict[str, int] = field(default_factory=dict)
    """By name, a version at or before which the entry last changed."""
    _marks: deque[tuple[float, int]] = field(default_factory=deque)

    def record_changes(self, changes: LogChanges) -> None:
        if changes.full:
            self.entries.clear()
        self.entries |= {entry.name: changes.version for entry in changes.entries}

    def due(self, now: float, at: int) -> Old | None:
        """Return the entries to remove, None for none yet.

        now: monotonic seconds.
        at: version of the log.
        """
        if self._marks and now < self._marks[-1][0] + EVERY_SECONDS:
            return None
        self._marks.append((now, at))
        self._sweep()
        if now < self._marks[0][0] + KEEP_SECONDS:
            return None
        _, before = self._marks.popleft()
        names: dict[str, int] = {}
        floor = 0
        for name, changed in self.entries.items():
            permit = self.ledger.get(name)
            if changed <= before and len(names) < AT_ONCE and self._certain(permit):
                names[name] = changed
                floor = max(floor, version(permit) if permit else 0)
        return Old(names, floor) if names else None

    def _certain(self, permit: LedgerPermit | None) -> bool:
        """Return whether the Permit says as much as the log. An entry in no ledger was undone."""
        if permit is None:
            return True
        settled = permit.status_written and not (permit.unsure or permit.late)
        giving_back = permit.open and permit.releasing
        return settled and not giving_back and version(permit) <= self._read_cache_version()

    def done(self, old: Old) -> None:
        for name in old.names:
            self.entries.pop(name, None)

    def _sweep(self) -> None:
        """Forget permits that the log reported after their Permit was deleted, as no watch reports
        that again.
        """
        if not self.permits.fresh():
            return
        cache_version = self._read_cache_version()
        for permit in self.ledger:
            on_record = self.permits.get(permit.name) is not None
            if (
                permit.uid
                and not on_record
                and not permit.unsure
                and version(permit) <= cache_version
            ):
                self.ledger.forget(permit.name)

    def _read_cache_version(self) -> int:
        return int(self.permits.resource_version or 0)
