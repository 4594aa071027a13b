"""What may be cut off the log: what every replica sees on record by now, so that it stays short.

A replica that has not seen as much of the Permits as the floor says answers nothing; so nobody
misses what is cut off, whatever time it takes.
"""

from collections import deque
from dataclasses import dataclass, field

from defender.ledger import LedgerPermit, PermitLedger
from defender.redis.log import LogChanges
from defender.redis.merge import version
from kubenode.api.v1alpha1 import Permit
from kubenode.runtime.kube.informer import Informer

KEEP_SECONDS = 60.0
"""Replicas that follow at their own pace need no full list for what is younger."""
EVERY_SECONDS = 10.0
AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Old:
    """`names` with the version that each had at most."""

    names: dict[str, int]
    floor: int


@dataclass(slots=True)
class Trimming:
    ledger: PermitLedger
    permits: Informer[Permit]
    entries: dict[str, int] = field(default_factory=dict)
    """Name to a version at which, or before which, it changed last."""
    _marks: deque[tuple[float, int]] = field(default_factory=deque)

    def told(self, changes: LogChanges) -> None:
        if changes.full:
            self.entries.clear()
        self.entries |= {entry.name: changes.version for entry in changes.entries}

    def due(self, now: float, at: int) -> Old | None:
        """What is old enough and certain, None if it is not time. `at`: version of the log."""
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
        """Whether the record says as much as the log; what is in no ledger came to nothing."""
        if held is None:
            return True
        settled = held.status_written and not (held.unsure or held.late)
        giving_back = held.open and held.releasing
        return settled and not giving_back and version(held) <= self._seen()

    def done(self, old: Old) -> None:
        for name in old.names:
            self.entries.pop(name, None)

    def _sweep(self) -> None:
        """Forget what the log brought after its Permit was deleted: no watch will tell of it."""
        if not self.permits.fresh():
            return
        seen = self._seen()
        for held in self.ledger:
            on_record = self.permits.get(held.name) is not None
            if held.uid and not on_record and not held.unsure and version(held) <= seen:
                self.ledger.forget(held.name)

    def _seen(self) -> int:
        return int(self.permits.resource_version or 0)
