"""Simulate past requests under other policies. Pure.

The requests of a History are replayed in order of time on the risk control that decides in
production. A refused holder waits in its queue, asks again at the given time, and is called when a
slot is free. A permit lasts as long as it did in reality, from the time of its grant.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from typing import Literal

import msgspec

from defender.decision.control import RiskControl
from defender.decision.history import History, PastFault, RecordedRequest
from defender.decision.ledger import LedgerPermit
from defender.decision.policies import LoadedPolicy
from defender.decision.queue.selection import call
from defender.decision.verdict import judge
from kubenode.api.v1alpha1 import Reason, Verdict
from kubenode.api.v1alpha1.defenderpolicy import (
    BreakerState,
    BreakerStatus,
    DefenderPolicyStatus,
)
from kubenode.runtime.hosttime import host_time
from kubenode.runtime.kube.objects import Node, NodeCondition

SOONEST = timedelta(seconds=1)
PATIENCE = 20
"""A simulated holder asks again after its wait so far divided by this, unless it is called. So long
waits cost few requests.
"""
FOR_EVER = timedelta(days=365)
LONG_AGO = timedelta(days=30)
Happening = Literal["fault", "heal", "give back", "ask"]


@dataclass(slots=True)
class RequestFate:
    """The outcome of one request. `refusals` counts the refusals by reason and scope."""

    wish: RecordedRequest
    granted: datetime | None = None
    withdrawn: bool = False
    refusals: Counter[tuple[Reason, str]] = field(default_factory=Counter)

    @property
    def waited(self) -> timedelta | None:
        """Time from the first ask to the grant, None without a grant."""
        return self.granted - self.wish.at if self.granted is not None else None


@dataclass(slots=True)
class SimulationOutcome:
    """The outcome of a simulation.

    fates: the outcome of each request.
    most_disrupted: the greatest number of nodes with a permit at one time, and when.
    most_unhealthy: the greatest number of nodes with a permit or not ready, and when.
    openings: breakers that opened, each with its policy.
    judged: number of verdicts.
    """

    fates: list[RequestFate]
    most_disrupted: tuple[int, datetime]
    most_unhealthy: tuple[int, datetime]
    openings: list[tuple[str, BreakerStatus]]
    judged: int

    @property
    def granted(self) -> list[RequestFate]:
        return [fate for fate in self.fates if fate.granted is not None]

    def waits(self) -> list[timedelta]:
        """Return the waits of granted requests, shortest first."""
        return sorted(fate.waited for fate in self.fates if fate.waited is not None)


def simulate(history: History, policies: Sequence[LoadedPolicy]) -> SimulationOutcome:
    """Simulate the history from its start to its end."""
    return _Play(history, policies).run()


class _Play:
    def __init__(self, history: History, policies: Sequence[LoadedPolicy]) -> None:
        self._history, self._now = history, history.start
        self._control = RiskControl()
        fresh = [replace(policy, status=DefenderPolicyStatus()) for policy in policies]
        self._control.govern(fresh, self._now)
        self._names = [policy.name for policy in fresh or (self._control.fallback,)]
        self._nodes = {node.metadata.name: node for node in history.nodes}
        for name, node in self._nodes.items():
            self._control.node_changed(name, ready_node(node, history.start), self._now)
        for permit in history.before:
            self._control.ledger.enter(replace(permit, grants=list(permit.grants)))
        self._control.queue.listen(True)
        self._fates = [RequestFate(wish) for wish in history.wishes]
        self._asking: dict[str, list[int]] = {}
        """By the UID of a holder, the indexes of its waiting requests."""
        self._due: list[tuple[datetime, int, Happening, int]] = []
        self._order = count()
        self._silent: set[str] = set()
        self._ends: dict[str, datetime] = {}
        self._openings: dict[tuple[str, str, datetime], BreakerStatus] = {}
        self._worst = (0, history.start)
        self._worst_unhealthy = (0, history.start)
        self._judged = 0

    def run(self) -> SimulationOutcome:
        self._schedule()
        while self._due and self._due[0][0] <= self._history.end:
            at, _, what, index = heappop(self._due)
            self._now = max(self._now, at)
            match what:
                case "fault":
                    self._fail(self._history.faults[index])
                case "heal":
                    self._heal(self._history.faults[index])
                case "give back":
                    self._give_back(index, at)
                case "ask":
                    self._ask(index)
            self._advance()
        openings = sorted(
            ((policy, status) for (policy, _, _), status in self._openings.items()),
            key=lambda opening: (opening[1].since, opening[0], opening[1].scope),
        )
        return SimulationOutcome(
            self._fates, self._worst, self._worst_unhealthy, openings, self._judged
        )

    def _schedule(self) -> None:
        for index, fault in enumerate(self._history.faults):
            self._at(fault.at, "fault", index)
            if fault.until is not None:
                self._at(fault.until, "heal", index)
        for index, wish in enumerate(self._history.wishes):
            self._at(wish.at, "ask", index)
        for index, permit in enumerate(self._history.before):
            end = self._history.ends.get(permit.name)
            if permit.open and end is not None:
                self._at(end, "give back", -1 - index)

    def _at(self, at: datetime, what: Happening, index: int) -> None:
        heappush(self._due, (at, next(self._order), what, index))

    # -- what happens -------------------------------------------------------------------------

    def _fail(self, fault: PastFault) -> None:
        node = self._nodes.get(fault.node)
        if node is not None and fault.silent:
            self._silent.add(fault.node)
            silent = silent_node(node, self._now)
            self._control.node_changed(fault.node, silent, self._now)
        if fault.job is not None:
            self._control.job_changed(None, fault.opened(), self._now)

    def _heal(self, fault: PastFault) -> None:
        node = self._nodes.get(fault.node)
        if node is not None and fault.silent and fault.node in self._silent:
            self._silent.discard(fault.node)
            self._control.node_changed(fault.node, ready_node(node, self._now), self._now)
        if fault.job is not None:
            self._control.job_changed(fault.opened(), fault.closed(), self._now)

    def _give_back(self, index: int, at: datetime) -> None:
        """Release a permit. An index below zero is one from before the start, else that of a
        request.
        """
        ledger = self._control.ledger
        if index < 0:
            permit = ledger.get(self._history.before[-1 - index].name)
        else:
            wish = self._history.wishes[index]
            permit = ledger.open_of(wish.ask.holder, wish.ask.node)
        if permit is None or not permit.open or self._ends.get(permit.name, at) > at:
            return  # a later grant of this permit lasts longer
        ledger.release(permit, self._now)
        for fault in self._history.healed_by(permit.holder.uid):
            self._heal(fault)

    def _ask(self, index: int) -> None:
        fate = self._fates[index]
        wish = fate.wish
        if fate.granted is not None or fate.withdrawn:
            return
        if wish.until is not None and self._now > wish.until:
            fate.withdrawn = True
            return
        control = self._control
        control.advance(self._now)
        verdict = judge(wish.ask, control, self._now)
        verdict = control.queue.answered(wish.ask, verdict, self._now)
        self._judged += 1
        if verdict.allowed:
            self._grant(index, verdict)
        else:
            fate.refusals[verdict.reason, verdict.scope] += 1
            waiting = self._asking.setdefault(wish.ask.holder.uid, [])
            if index not in waiting:
                waiting.append(index)
            self._at(self._again(wish, verdict), "ask", index)

    def _again(self, wish: RecordedRequest, verdict: Verdict) -> datetime:
        soonest = self._now + max(SOONEST, (self._now - wish.at) / PATIENCE)
        again = max(soonest, verdict.look_again_at or soonest)
        return min(again, wish.until) if wish.until and wish.until > self._now else again

    def _grant(self, index: int, verdict: Verdict) -> None:
        fate, ledger = self._fates[index], self._control.ledger
        wish, ask = fate.wish, fate.wish.ask
        fate.granted = self._now
        waiting = self._asking.get(ask.holder.uid, [])
        if index in waiting:
            waiting.remove(index)
        permit = ledger.open_of(ask.holder, ask.node)
        if permit is None:
            permit = self._make_permit(wish)
            ledger.enter(permit)
        elif not verdict.permit:
            ledger.grant(permit, ask.class_, self._now)
        end = self._now + wish.lasts if wish.lasts is not None else self._now + FOR_EVER
        self._ends[permit.name] = max(end, self._ends.get(permit.name, end))
        self._at(end, "give back", index)

    def _make_permit(self, wish: RecordedRequest) -> LedgerPermit:
        ask, control = wish.ask, self._control
        return LedgerPermit(
            name=control.ledger.next_name(ask.holder, ask.node),
            node=ask.node,
            operation=ask.operation,
            holder=ask.holder,
            grants=[(ask.class_, self._now)],
            expires_at=self._now + FOR_EVER,
            scopes=control.scopes_of(ask),
            uid="simulated",
        )

    # -- after each ---------------------------------------------------------------------------

    def _advance(self) -> None:
        """Let time pass, call the next in line, and record the extremes."""
        self._control.advance(self._now)
        for holder in call(self._control, self._now):
            for index in list(self._asking.get(holder.uid, ())):
                self._ask(index)
        for name in self._names:
            for status in self._control.breakers.history(name):
                if status.state is BreakerState.OPEN:
                    self._openings[name, status.scope, status.since] = status
        under = {permit.node for permit in self._control.ledger.open()}
        if len(under) > self._worst[0]:
            self._worst = (len(under), self._now)
        away = len(under | self._silent)
        if away > self._worst_unhealthy[0]:
            self._worst_unhealthy = (away, self._now)


def reasons(fates: Iterable[RequestFate]) -> Counter[tuple[Reason, str]]:
    """Return how many requests each reason refused at least once, by reason and kind of scope."""
    return Counter(
        (reason, kind_of(scope)) for fate in fates for reason, scope in set(_kinds(fate))
    )


def _kinds(fate: RequestFate) -> Iterator[tuple[Reason, str]]:
    return ((reason, kind_of(scope)) for reason, scope in fate.refusals)


def kind_of(scope: str) -> str:
    """Return the scope; for racks and nodes only their kind."""
    key, sign, _ = scope.partition("=")
    return f"{key}=*" if sign and key in ("node", "kubenode.io/rack") else scope


def ready_node(node: Node, now: datetime) -> Node:
    """Return the node as it is without a fault: ready for a long time, and schedulable."""
    return _with(node, "True", now - LONG_AGO)


def silent_node(node: Node, now: datetime) -> Node:
    """Return the node as not ready since now."""
    return _with(node, "False", now)


def _with(node: Node, ready: str, since: datetime) -> Node:
    condition = NodeCondition("Ready", ready, last_transition_time=host_time(since))
    status = msgspec.structs.replace(node.status, conditions=[condition])
    born = node.metadata.creation_timestamp
    old = since - LONG_AGO
    meta = msgspec.structs.replace(
        node.metadata,
        creation_timestamp=old if born is None or born > old else born,
        deletion_timestamp=None,
    )
    spec = msgspec.structs.replace(node.spec, unschedulable=False, taints=[])
    return msgspec.structs.replace(node, metadata=meta, status=status, spec=spec)
