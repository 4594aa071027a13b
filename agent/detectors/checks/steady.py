"""When a finding becomes a condition: pure, so that nothing flaps for a reason nobody can test.

A fault and its end each take some looks in a row. While status and reason stay the message stays
too: a figure that ticks would be a change at every look.
"""

from dataclasses import dataclass, replace

from agent.detectors import NOT_LOOKED_AT, ReportedStatus
from agent.detectors.checks import Finding

UNSEEN = Finding(None, NOT_LOOKED_AT, "not looked at yet")
_STATUS = {True: ReportedStatus.TRUE, False: ReportedStatus.FALSE, None: ReportedStatus.UNKNOWN}


@dataclass(frozen=True, slots=True)
class Rounds:
    """Looks in a row. `to_set` is also what it takes to say that nothing can be told any more."""

    to_set: int = 1
    to_clear: int = 1


@dataclass(frozen=True, slots=True)
class SteadyFinding:
    """last  what was last reported; other, times  what looks since say instead, and how often."""

    last: Finding = UNSEEN
    other: bool | None = None
    times: int = 0

    @property
    def status(self) -> ReportedStatus:
        return _STATUS[self.last.faulty]


def weigh(state: SteadyFinding, finding: Finding, rounds: Rounds) -> SteadyFinding:
    """What is told after one more look."""
    last = state.last
    if finding.faulty is last.faulty:
        return SteadyFinding(last if finding.reason == last.reason else finding)
    times = state.times + 1 if state.times and state.other is finding.faulty else 1
    # Unknown becomes well at once: whoever looks for the first time and sees no fault says so.
    at_once = last.faulty is None and finding.faulty is False
    needed = rounds.to_clear if finding.faulty is False else rounds.to_set
    if at_once or times >= needed:
        return SteadyFinding(finding)
    return replace(state, other=finding.faulty, times=times)


def is_exceeded(value: float, limit: float, was: bool | None, margin: float) -> bool:
    """Whether a limit is exceeded; one that was, until the value is `margin` below it."""
    return value >= (limit - margin if was else limit)
