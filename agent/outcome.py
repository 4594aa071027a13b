"""How a request ended, before it becomes an answer on the wire."""

from dataclasses import dataclass
from enum import StrEnum

INTERRUPTED = "interrupted; not repeated"
OUTPUT_LIMIT = 4096
"""Characters; the API refuses more (kubenode.api: AgentRequest.output)."""


NO_ANSWER, TOO_LATE = 127, 124
"""Codes of a check that says neither yes nor no: it could not be run, or took too long."""


class OutcomeState(StrEnum):
    """Refused was never started. An answer is written once, at the end; only what may end the agent
    itself is announced before, as Running.
    """

    RUNNING = "Running"
    DONE = "Done"
    FAILED = "Failed"
    REFUSED = "Refused"


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """`code` is 0 for what is done, an exit status or 1 for what failed, None if nothing ran."""

    state: OutcomeState
    output: str
    code: int | None = None


def done(output: str) -> StepOutcome:
    return StepOutcome(OutcomeState.DONE, bounded(output), 0)


def failed(output: str, code: int = 1) -> StepOutcome:
    return StepOutcome(OutcomeState.FAILED, bounded(output), code)


def boot_cut(boot_id: str) -> str:
    """Why something was not seen to end: the host booted while it was under way."""
    return f"the host booted again (boot {boot_id or 'unknown'}); {INTERRUPTED}"


def refused(why: str) -> StepOutcome:
    return StepOutcome(OutcomeState.REFUSED, bounded(why))


def bounded(text: str, limit: int = OUTPUT_LIMIT) -> str:
    """At most `limit` characters; the middle goes, as the end tells why something failed."""
    if len(text) <= limit:
        return text
    mark = f"\n[{len(text) - limit} characters and more left out]\n"
    head = (limit - len(mark)) // 3
    return text[:head] + mark + text[-(limit - len(mark) - head) :]
