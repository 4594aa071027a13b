"""Decides when a finding changes a condition, so that conditions do not flap. Pure.

A fault, and its end, each take several equal findings in a row. The message changes only with
status or reason, because a ticking figure would change it at every check.
"""

from dataclasses import dataclass, replace

from agent.detectors import NOT_LOOKED_AT, ReportedStatus
from agent.detectors.checks import Finding

UNSEEN = Finding(None, NOT_LOOKED_AT, "not looked at yet")
_STATUS = {True: ReportedStatus.TRUE, False: ReportedStatus.FALSE, None: ReportedStatus.UNKNOWN}


@dataclass(frozen=True, slots=True)
class Rounds:
    """Number of equal findings in a row. `to_set` also applies to a change to unknown."""

    to_set: int = 1
    to_clear: int = 1


@dataclass(frozen=True, slots=True)
class SteadyFinding:
    """State of a condition. last: last reported finding.

    other, times: newer, different finding, and how often it occurred in a row
    """

    last: Finding = UNSEEN
    other: bool | None = None
    times: int = 0

    @property
    def status(self) -> ReportedStatus:
        return _STATUS[self.last.faulty]


def weigh(state: SteadyFinding, finding: Finding, rounds: Rounds) -> SteadyFinding:
    """Return the state after one more finding."""
    last = state.last
    if finding.faulty is last.faulty:
        return SteadyFinding(last if finding.reason == last.reason else finding)
    times = state.times + 1 if state.times and state.other is finding.faulty else 1
    # The first finding of "healthy" counts at once: an unknown condition needs no confirmation.
    at_once = last.faulty is None and finding.faulty is False
    needed = rounds.to_clear if finding.faulty is False else rounds.to_set
    if at_once or times >= needed:
        return SteadyFinding(finding)
    return replace(state, other=finding.faulty, times=times)


def is_exceeded(value: float, limit: float, was: bool | None, margin: float) -> bool:
    """Return whether `value` reaches the limit. One that did, does until it is `margin` below."""
    return value >= (limit - margin if was else limit)
