"""The faults that really exist on nodes, and since when: the demo's own record of the truth.

The observer judges acts by it, and the summary counts by it. Controllers never read it. All times
are seconds of one monotonic clock.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from simulation.demo.faults import Kind


class EndedBy(StrEnum):
    AGENT = "agent"
    PROVIDER = "provider"
    PERSON = "person"
    ITSELF = "itself"


@dataclass(slots=True)
class InjectedFault:
    """One fault on one node.

    signalled: when the API server stored a detector's report of it.
    withdrawn: when the API server stored the end of that report, after the fault ended.
    decided: when the API server stored a job for it.
    healed: when its job became Succeeded.
    """

    node: str
    kind: Kind
    began: float
    ended: float | None = None
    ended_by: EndedBy | None = None
    signalled: float | None = None
    withdrawn: float | None = None
    decided: float | None = None
    job: str = ""
    healed: float | None = None


@dataclass(slots=True)
class Ledger:
    """All faults that were ever injected.

    slack: seconds after a fault's end in which an act on its node is not a false action.

    A fault that was reported counts until the report is withdrawn: nobody can know of its end
    before,
    and on a busy machine the simulated detectors are late.
    """

    slack: float = 2.0
    faults: list[InjectedFault] = field(default_factory=list)
    _by_node: dict[str, list[InjectedFault]] = field(default_factory=dict)

    def inject(self, node: str, kind: Kind, at: float) -> InjectedFault:
        fault = InjectedFault(node, kind, at)
        self.faults.append(fault)
        self._by_node.setdefault(node, []).append(fault)
        return fault

    def end(self, node: str, kinds: Iterable[Kind], at: float, by: EndedBy) -> None:
        """End the open faults of these kinds on `node`."""
        wanted = set(kinds)
        for fault in self.open(node):
            if fault.kind in wanted:
                fault.ended, fault.ended_by = at, by

    def open(self, node: str) -> list[InjectedFault]:
        return [f for f in self._by_node.get(node, ()) if f.ended is None]

    def faulty(self, node: str, at: float) -> bool:
        """Return whether `node` had a real fault at `at`, or until shortly before."""
        return any(
            f.kind.real and f.began <= at and at <= self._compute_end(f)
            for f in self._by_node.get(node, ())
        )

    def _compute_end(self, fault: InjectedFault) -> float:
        """Return the time until which an act on the fault's node is not a false action."""
        if fault.ended is None or (fault.signalled is not None and fault.withdrawn is None):
            return math.inf
        return max(fault.ended, fault.withdrawn or 0.0) + self.slack

    def signalled(self, node: str, at: float) -> None:
        """Record that a detector reported a fault of `node`."""
        for fault in self.open(node):
            if fault.signalled is None:
                fault.signalled = at

    def withdrawn(self, node: str, at: float) -> None:
        """Record that a detector withdrew its report on `node`."""
        for fault in self._by_node.get(node, ()):
            if fault.ended is not None and fault.withdrawn is None:
                fault.withdrawn = at

    def decided(self, node: str, job: str, at: float) -> None:
        """Assign a new job to the oldest real fault of the node that has none."""
        for fault in self._by_node.get(node, ()):
            if fault.kind.real and fault.job == "" and self._recent(fault, at):
                fault.job = job
                fault.decided = at if fault.decided is None else fault.decided
                return

    def given_up(self, job: str) -> None:
        """Remove a job that ended before it began, so that the next one can be assigned to its
        fault.
        """
        for fault in self.faults:
            if fault.job == job:
                fault.job = ""

    def succeeded(self, job: str, at: float) -> None:
        for fault in self.faults:
            if fault.job == job and fault.healed is None:
                fault.healed = at

    def _recent(self, fault: InjectedFault, at: float) -> bool:
        return at <= self._compute_end(fault)

    @property
    def healed(self) -> list[InjectedFault]:
        """Return the faults that an act of ours ended and whose job verified it."""
        ours = (EndedBy.AGENT, EndedBy.PROVIDER)
        return [f for f in self.faults if f.healed is not None and f.ended_by in ours]
