"""What is really wrong on which node, and since when: the demo's own record of the truth.

The observer judges acts by it, the summary counts by it. Controllers never see it. All times are
seconds of one monotonic clock.
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

    signalled  a detector's report of it became readable at the API server
    withdrawn  that report was taken back there, after the fault had ended
    decided    a job for it exists there
    healed     its job is Succeeded
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
    """All faults ever injected.

    slack  seconds after a fault's end in which an act on its node is not called false: the time
           of an answer. A fault that was reported ends when the report is withdrawn: nobody can
           know before, and on a busy machine the simulated detectors are late
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
        """The open faults of these kinds on `node` are over."""
        wanted = set(kinds)
        for fault in self.open(node):
            if fault.kind in wanted:
                fault.ended, fault.ended_by = at, by

    def open(self, node: str) -> list[InjectedFault]:
        return [f for f in self._by_node.get(node, ()) if f.ended is None]

    def faulty(self, node: str, at: float) -> bool:
        """Whether something was really wrong on `node` at `at`, or had been until just before."""
        return any(
            f.kind.real and f.began <= at and at <= self._compute_end(f)
            for f in self._by_node.get(node, ())
        )

    def _compute_end(self, fault: InjectedFault) -> float:
        """Until when an act on the fault's node is no false one."""
        if fault.ended is None or (fault.signalled is not None and fault.withdrawn is None):
            return math.inf
        return max(fault.ended, fault.withdrawn or 0.0) + self.slack

    def signalled(self, node: str, at: float) -> None:
        """A detector reported a problem of `node` for the first time since it was well."""
        for fault in self.open(node):
            if fault.signalled is None:
                fault.signalled = at

    def withdrawn(self, node: str, at: float) -> None:
        """A detector took its report on `node` back."""
        for fault in self._by_node.get(node, ()):
            if fault.ended is not None and fault.withdrawn is None:
                fault.withdrawn = at

    def decided(self, node: str, job: str, at: float) -> None:
        """A job was created: it answers the oldest real fault of the node without one."""
        for fault in self._by_node.get(node, ()):
            if fault.kind.real and fault.job == "" and self._recent(fault, at):
                fault.job = job
                fault.decided = at if fault.decided is None else fault.decided
                return

    def given_up(self, job: str) -> None:
        """A job ended before it began: the next one answers its fault."""
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
        """Faults that an act of ours ended, and whose job then proved it."""
        ours = (EndedBy.AGENT, EndedBy.PROVIDER)
        return [f for f in self.faults if f.healed is not None and f.ended_by in ours]
