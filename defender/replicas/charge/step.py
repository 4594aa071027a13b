"""Decide who answers: all replicas through Redis, or the holder of the lease alone from the
Permits.

Redis may lose acknowledged writes, so it never has the last word. The coordination record on the
API server says which mode is in force:

- Redis: this epoch, in this reign of one Redis process. A replica answers if it has read the record
  within TRUST, and Redis confirms the record at each step.
- Permits: only the holder of the lease answers.

From Redis to Permits the leader writes its claim and waits. TRUST after that no replica answers by
Redis, so the Permits listed then are complete. From Permits to Redis the leader begins a new epoch
from its memory, and then writes the record.

A step never assumes that its act succeeded; `CoordinationObservation.done` says so.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

TRUST = 6.0
"""Seconds for which a replica relies on the record that it has read."""


class CoordinationMode(StrEnum):
    """Who answers."""

    REDIS = "Redis"
    PERMITS = "Permits"


@dataclass(frozen=True, slots=True)
class CoordinationRecord:
    """The record on the API server.

    term: epoch of the lease under which it was written.
    epoch, replid, floor: of the log, only with mode Redis.
    """

    mode: CoordinationMode
    term: int = 0
    epoch: str = ""
    replid: str = ""
    floor: int = 0


class Redis(StrEnum):
    """State of Redis compared with the record."""

    OURS = "the epoch and the reign of the record"
    STRANGE = "it answers, with another epoch or reign"
    AWAY = "no answer, an error, no master, full"


class Phase(StrEnum):
    """Phase of the change between the modes."""

    FOLLOW = "by the record"
    CLAIM = "write that the holder of the lease answers alone"
    DRAIN = "wait until everybody else has stopped"
    LOAD = "list the Permits"
    ALONE = "answer alone"
    BEGIN = "begin a new epoch"
    PUBLISH = "write that everybody answers by it"


class AnswerSource(StrEnum):
    """What this replica answers from."""

    NOTHING = "nothing"
    REDIS = "Redis"
    PERMITS = "Permits"


@dataclass(frozen=True, slots=True)
class CoordinationTimes:
    """Times in seconds.

    trust: for which a replica relies on the record that it has read.
    margin: additional wait before the Permits are listed.
    patience: for which Redis may be away before the leader does without it.
    settled: for which Redis must answer before it is used again.
    round: interval of checks of the record and of Redis.
    """

    trust: float = TRUST
    margin: float = 1.0
    patience: float = 2.0
    settled: float = 2.0
    round: float = 0.5


@dataclass(frozen=True, slots=True)
class CoordinationState:
    """`since` is the monotonic start of the phase; `term` the lease's epoch to which it belongs."""

    phase: Phase = Phase.FOLLOW
    since: float = 0.0
    term: int = 0


@dataclass(frozen=True, slots=True)
class CoordinationObservation:
    """What was observed.

    now: monotonic seconds.
    term: epoch of our lease, None if another replica leads.
    record: as last read. None if never read, or not since an act with unclear outcome.
    read_at: monotonic time before that read was requested.
    redis: its state.
    redis_since: monotonic time since which it has that state.
    done: whether the act of the present phase succeeded.
    """

    now: float
    term: int | None
    record: CoordinationRecord | None
    read_at: float
    redis: Redis
    redis_since: float
    done: bool = False


def step(
    state: CoordinationState, observation: CoordinationObservation, times: CoordinationTimes
) -> CoordinationState:
    """Return the next phase. The act of a phase is repeated until `seen.done`."""

    def to(phase: Phase) -> CoordinationState:
        return CoordinationState(phase, observation.now, observation.term or 0)

    if observation.term is None:
        return state if state.phase is Phase.FOLLOW else to(Phase.FOLLOW)
    if state.phase is not Phase.FOLLOW and not _still_ours(state, observation):
        return to(Phase.FOLLOW)
    lasted = observation.now - state.since
    well_for = observation.now - observation.redis_since
    match state.phase:
        case Phase.FOLLOW if _to_be_claimed(observation, times):
            return to(Phase.CLAIM)
        case Phase.CLAIM if observation.done:
            return to(Phase.DRAIN)
        case Phase.DRAIN if lasted >= times.trust + times.margin:
            return to(Phase.LOAD)
        case Phase.LOAD if observation.done:
            return to(Phase.ALONE)
        case Phase.ALONE if observation.redis is not Redis.AWAY and well_for >= times.settled:
            return to(Phase.BEGIN)
        case Phase.BEGIN if observation.redis is Redis.AWAY:
            return to(Phase.ALONE)
        case Phase.BEGIN if observation.done:
            return to(Phase.PUBLISH)
        case Phase.PUBLISH if observation.done:
            return to(Phase.FOLLOW)
    return replace(state, term=observation.term)


def _still_ours(state: CoordinationState, observation: CoordinationObservation) -> bool:
    """Return whether the lease, and the claimed record, are still those of the phase."""
    if state.term != observation.term:
        return False
    if state.phase is Phase.CLAIM or (state.phase is Phase.PUBLISH and observation.done):
        return True
    return observation.record is not None and observation.record == CoordinationRecord(
        CoordinationMode.PERMITS, state.term
    )


def _to_be_claimed(observation: CoordinationObservation, times: CoordinationTimes) -> bool:
    """Return whether the holder of the lease must do without Redis for now."""
    if observation.record is None:
        return False
    if observation.record.mode is CoordinationMode.PERMITS or observation.redis is Redis.STRANGE:
        return True
    away = observation.redis is Redis.AWAY
    return away and observation.now - observation.redis_since >= times.patience


def answers(
    state: CoordinationState, observation: CoordinationObservation, times: CoordinationTimes
) -> AnswerSource:
    """Return what this replica answers from."""
    if (
        state.phase is Phase.ALONE
        and observation.term is not None
        and _still_ours(state, observation)
    ):
        return AnswerSource.PERMITS
    if state.phase is not Phase.FOLLOW or observation.record is None:
        return AnswerSource.NOTHING
    if observation.record.mode is not CoordinationMode.REDIS or observation.redis is not Redis.OURS:
        return AnswerSource.NOTHING
    fresh = observation.now - observation.read_at < times.trust
    return AnswerSource.REDIS if fresh else AnswerSource.NOTHING
