"""Determine which entries can be removed from the log, because the Permits show them to every
replica.

A replica whose Permits are older than the log's floor answers nothing, so no replica misses a
removed entry.
"""

from collections import deque
from dataclasses import dataclass, field

from defender.ledger import LedgerPermit, PermitLedger
from defender.redis.log import LogChanges
from defender.redis.merge import version
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

    def told(self, changes: LogChanges) -> None:
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
            held = self.ledger.get(name)
            if changed <= before and len(names) < AT_ONCE and self._certain(held):
                names[name] = changed
                floor = max(floor, version(held) if held else 0)
        return Old(names, floor) if names else None

    def _certain(self, held: LedgerPermit | None) -> bool:
        """Return whether the Permit says as much as the log. An entry in no ledger was undone."""
        if held is None:
            return True
        settled = held.status_written and not (held.unsure or held.late)
        giving_back = held.open and held.releasing
        return settled and not giving_back and version(held) <= self._seen()

    def done(self, old: Old) -> None:
        for name in old.names:
            self.entries.pop(name, None)

    def _sweep(self) -> None:
        """Forget permits that the log reported after their Permit was deleted, as no watch reports
        that again.
        """
        if not self.permits.fresh():
            return
        seen = self._seen()
        for held in self.ledger:
            on_record = self.permits.get(held.name) is not None
            if held.uid and not on_record and not held.unsure and version(held) <= seen:
                self.ledger.forget(held.name)

    def _seen(self) -> int:
        return int(self.permits.resource_version or 0)
