"""Outcome of a request, before it becomes an answer on the wire."""

from dataclasses import dataclass
from enum import StrEnum

INTERRUPTED = "interrupted; not repeated"
OUTPUT_LIMIT = 4096
"""Characters. The API refuses more (kubenode.api: AgentRequest.output)."""


NO_ANSWER, TOO_LATE = 127, 124
"""Exit codes of a check without a result: it could not be run, or it took too long."""


class OutcomeState(StrEnum):
    """State of an answer. Refused: the act never began.

    An answer is written once, at the end. Only an act that may end the agent is announced before,
    as Running.
    """

    RUNNING = "Running"
    DONE = "Done"
    FAILED = "Failed"
    REFUSED = "Refused"


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """Outcome of an act. code: 0 for Done, an exit status or 1 for Failed, None if nothing ran."""

    state: OutcomeState
    output: str
    code: int | None = None


def done(output: str) -> StepOutcome:
    return StepOutcome(OutcomeState.DONE, bounded(output), 0)


def failed(output: str, code: int = 1) -> StepOutcome:
    return StepOutcome(OutcomeState.FAILED, bounded(output), code)


def boot_cut(boot_id: str) -> str:
    """Describe that the host booted before the end of an act was observed."""
    return f"the host booted again (boot {boot_id or 'unknown'}); {INTERRUPTED}"


def refused(why: str) -> StepOutcome:
    return StepOutcome(OutcomeState.REFUSED, bounded(why))


def bounded(text: str, limit: int = OUTPUT_LIMIT) -> str:
    """Shorten to `limit` characters. The middle is cut, because the end tells why something
    failed.
    """
    if len(text) <= limit:
        return text
    mark = f"\n[{len(text) - limit} characters and more left out]\n"
    head = (limit - len(mark)) // 3
    return text[:head] + mark + text[-(limit - len(mark) - head) :]
