"""The log watchers of agents: from log lines to the conditions and Events that agents publish.

A watcher starts with the first line about its node. Until then it has read its logs without finding
a fault.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from agent.detectors import ConditionReport, EventReport, Report, ReportedStatus
from agent.detectors.logs.line import recorded
from agent.detectors.logs.pack import our_program
from agent.detectors.logs.program import Program
from agent.detectors.logs.state import State, end_faults
from agent.detectors.logs.timeouts import after_boot, due, pass_time, questions
from agent.detectors.logs.watch import begin, looked, watch
from agent.nodestatus import form
from agent.nodestatus.board import ConditionBoard, ReportNews
from agent.nodestatus.tally import EventEntry, EventTally
from kubenode.api.meta import ConditionStatus
from simulation.replay.signals import Log, SimulatedCondition, SimulatedEvent

Written = SimulatedCondition | SimulatedEvent
NAME = "logs"
"""The detector that owns all conditions of log watchers."""


@dataclass(slots=True)
class _NodeDetectors:
    state: State
    board: ConditionBoard
    tally: EventTally


class Watchers:
    """The log watchers by node. Methods yield what is written to the API server, in order."""

    def __init__(self) -> None:
        self._agents: dict[str, _NodeDetectors] = {}

    def line(self, node: str, log: Log, now: datetime) -> Iterator[Written]:
        program = builtin()
        agent = self._agents.get(node)
        if agent is None:
            agent = self._agents[node] = _started(program, now)
            yield from _conditions(agent)
        for line in recorded(log.source, log.text, now, node):
            agent.state, reports = watch(program, agent.state, line, now)
            yield from _published(agent, reports, now)

    def due(self, node: str) -> datetime | None:
        """Return when `passed` must be called; None if not before the next line."""
        agent = self._agents.get(node)
        return due(builtin(), agent.state) if agent is not None else None

    def passed(self, node: str, now: datetime) -> Iterator[Written]:
        agent = self._agents.get(node)
        if agent is not None:
            agent.state, reports = pass_time(builtin(), agent.state, now)
            # No checks run on a simulated host, so what a check would end continues.
            agent.state, _ = questions(builtin(), agent.state, now)
            yield from _published(agent, reports, now)

    def ended(self, node: str, type_: str, now: datetime) -> None:
        """End a fault whose condition was changed from outside the watcher."""
        agent = self._agents.get(node)
        if agent is None or type_ not in agent.state.conditions:
            return
        program = builtin()
        condition_state = agent.state.conditions[type_]
        keys = frozenset(fault.key for fault in condition_state.faults)
        after, reports = end_faults(program.conditions[type_], condition_state, keys, now)
        agent.state = State({**agent.state.conditions, type_: after}, agent.state.counts)
        list(_published(agent, reports, now))

    def booted(self, node: str, now: datetime) -> Iterator[Written]:
        """Restart the agent after a boot, with the logs of the new boot already read."""
        before = self._agents.get(node)
        if before is None:
            return
        agent = self._agents[node] = _started(builtin(), now, before.state)
        yield from _conditions(agent)

    def forget(self, node: str) -> None:
        self._agents.pop(node, None)


@cache
def builtin() -> Program:
    """Return the patterns of an agent without a configuration of its own."""
    return our_program()


def _started(program: Program, now: datetime, before: State | None = None) -> _NodeDetectors:
    retained = after_boot(program, dict(before.conditions)) if before is not None else {}
    state, reports = begin(program, now, retained)
    agent = _NodeDetectors(
        state, ConditionBoard(dict.fromkeys(program.conditions, NAME)), EventTally()
    )
    agent.board.begin(now)
    agent.state, more = looked(program, state, program.conditions, now)
    for report in [*reports, *more]:
        if isinstance(report, ConditionReport):
            agent.board.put(NAME, report, now)
    return agent


def _conditions(agent: _NodeDetectors) -> Iterator[SimulatedCondition]:
    known = agent.board.untold()
    agent.board.mark_published(known)
    for report in known:
        yield SimulatedCondition(
            type=report.type,
            status=ConditionStatus(report.status.value),
            reason=report.reason,
            message=report.message,
        )


def _published(
    agent: _NodeDetectors, reports: Iterable[Report], now: datetime
) -> Iterator[Written]:
    """Yield conditions and Events as the agent's publisher does: a changed condition is an Event
    too.
    """
    for report in reports:
        if isinstance(report, EventReport):
            yield _event(agent.tally.put(report, now))
            continue
        before = agent.board.status(report.type)
        if agent.board.put(NAME, report, now) is not ReportNews.STATE:
            continue
        yield from _conditions(agent)
        if before is not ReportedStatus.UNKNOWN or report.status is not ReportedStatus.FALSE:
            yield _event(agent.tally.put(form.changed(report), now))


def _event(entry: EventEntry) -> SimulatedEvent:
    return SimulatedEvent(
        reason=entry.reason,
        message=entry.message,
        source=entry.detector,
        severity=entry.severity.value,
        count=entry.count,
        first=entry.first,
        last=entry.last,
        uid=entry.name,
    )
