"""Who answers: all replicas through Redis, or the holder of the lease alone, from the Permits.

Redis may lose what it acknowledged, so it is never the last word. Which of the two holds is
written where everybody reads it, on the API server (`record`):

    Redis    this epoch, in this reign of one Redis process: every replica answers that has read
             the record within TRUST, and that Redis confirms it at each step
    Permits  the holder of the lease answers, alone

From Redis to Permits is a claim and a wait: TRUST after the claim was written nobody answers by
Redis any more, so the Permits listed then are all there are. From Permits to Redis is a new epoch,
begun from the memory of the only one who answered, and then the record.

A step never assumes that its act succeeded: `CoordinationObservation.done` says so.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

TRUST = 6.0
"""Seconds for which a replica goes by what it has read of the record."""


class CoordinationMode(StrEnum):
    REDIS = "Redis"
    PERMITS = "Permits"


@dataclass(frozen=True, slots=True)
class CoordinationRecord:
    """What is written on the API server.

    term    epoch of the lease under which it was written
    epoch, replid, floor   of the log; with mode Redis alone
    """

    mode: CoordinationMode
    term: int = 0
    epoch: str = ""
    replid: str = ""
    floor: int = 0


class Redis(StrEnum):
    """How Redis is, compared with the record."""

    OURS = "the epoch and the reign of the record"
    STRANGE = "it answers, with another epoch or reign"
    AWAY = "no answer, an error, no master, full"


class Phase(StrEnum):
    FOLLOW = "by the record"
    CLAIM = "write that the holder of the lease answers alone"
    DRAIN = "wait until everybody else has stopped"
    LOAD = "list the Permits"
    ALONE = "answer alone"
    BEGIN = "begin a new epoch"
    PUBLISH = "write that everybody answers by it"


class AnswerSource(StrEnum):
    """What this replica answers by."""

    NOTHING = "nothing"
    REDIS = "Redis"
    PERMITS = "Permits"


@dataclass(frozen=True, slots=True)
class CoordinationTimes:
    """Seconds.

    trust     for which a replica goes by what it has read of the record
    margin    more than that passes before the Permits are listed
    patience  with a Redis that is away, before it is done without
    settled   for which Redis must have been well before it is used again
    round     between two looks at the record and at Redis
    """

    trust: float = TRUST
    margin: float = 1.0
    patience: float = 2.0
    settled: float = 2.0
    round: float = 0.5


@dataclass(frozen=True, slots=True)
class CoordinationState:
    """`since` is when the phase began, monotonic; `term` the lease's epoch that it belongs to."""

    phase: Phase = Phase.FOLLOW
    since: float = 0.0
    term: int = 0


@dataclass(frozen=True, slots=True)
class CoordinationObservation:
    """What was observed.

    now          monotonic
    term         epoch of our lease; None: another leads
    record       as last read; None: never, or not since an act whose outcome is unclear
    read_at      before that read was asked for, monotonic
    redis        as it is now, and since when
    done         whether the act of the present phase succeeded
    """

    now: float
    term: int | None
    record: CoordinationRecord | None
    read_at: float
    redis: Redis
    redis_since: float
    done: bool = False


def step(
    state: CoordinationState, seen: CoordinationObservation, times: CoordinationTimes
) -> CoordinationState:
    """The next phase. The act of a phase is done, again and again, until `seen.done`."""

    def to(phase: Phase) -> CoordinationState:
        return CoordinationState(phase, seen.now, seen.term or 0)

    if seen.term is None:
        return state if state.phase is Phase.FOLLOW else to(Phase.FOLLOW)
    if state.phase is not Phase.FOLLOW and not _still_ours(state, seen):
        return to(Phase.FOLLOW)
    lasted = seen.now - state.since
    well_for = seen.now - seen.redis_since
    match state.phase:
        case Phase.FOLLOW if _to_be_claimed(seen, times):
            return to(Phase.CLAIM)
        case Phase.CLAIM if seen.done:
            return to(Phase.DRAIN)
        case Phase.DRAIN if lasted >= times.trust + times.margin:
            return to(Phase.LOAD)
        case Phase.LOAD if seen.done:
            return to(Phase.ALONE)
        case Phase.ALONE if seen.redis is not Redis.AWAY and well_for >= times.settled:
            return to(Phase.BEGIN)
        case Phase.BEGIN if seen.redis is Redis.AWAY:
            return to(Phase.ALONE)
        case Phase.BEGIN if seen.done:
            return to(Phase.PUBLISH)
        case Phase.PUBLISH if seen.done:
            return to(Phase.FOLLOW)
    return replace(state, term=seen.term)


def _still_ours(state: CoordinationState, seen: CoordinationObservation) -> bool:
    """Whether the lease, and the record once it was claimed, are what the phase stands on."""
    if state.term != seen.term:
        return False
    if state.phase is Phase.CLAIM or (state.phase is Phase.PUBLISH and seen.done):
        return True
    return seen.record is not None and seen.record == CoordinationRecord(
        CoordinationMode.PERMITS, state.term
    )


def _to_be_claimed(seen: CoordinationObservation, times: CoordinationTimes) -> bool:
    """Whether the holder of the lease must do without Redis, for now."""
    if seen.record is None:
        return False
    if seen.record.mode is CoordinationMode.PERMITS or seen.redis is Redis.STRANGE:
        return True
    away = seen.redis is Redis.AWAY
    return away and seen.now - seen.redis_since >= times.patience


def answers(
    state: CoordinationState, seen: CoordinationObservation, times: CoordinationTimes
) -> AnswerSource:
    if state.phase is Phase.ALONE and seen.term is not None and _still_ours(state, seen):
        return AnswerSource.PERMITS
    if state.phase is not Phase.FOLLOW or seen.record is None:
        return AnswerSource.NOTHING
    if seen.record.mode is not CoordinationMode.REDIS or seen.redis is not Redis.OURS:
        return AnswerSource.NOTHING
    fresh = seen.now - seen.read_at < times.trust
    return AnswerSource.REDIS if fresh else AnswerSource.NOTHING
