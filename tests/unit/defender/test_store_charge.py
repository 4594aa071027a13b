"""Who answers: over every state and observation, and over replicas, late writes and lost leases."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from defender.replicas.charge.step import (
    AnswerSource,
    CoordinationMode,
    CoordinationObservation,
    CoordinationRecord,
    CoordinationState,
    CoordinationTimes,
    Phase,
    Redis,
    answers,
    step,
)

TIMES = CoordinationTimes()
NOW = 100.0
EDGES = {
    Phase.FOLLOW: {Phase.CLAIM},
    Phase.CLAIM: {Phase.DRAIN, Phase.FOLLOW},
    Phase.DRAIN: {Phase.LOAD, Phase.FOLLOW},
    Phase.LOAD: {Phase.ALONE, Phase.FOLLOW},
    Phase.ALONE: {Phase.BEGIN, Phase.FOLLOW},
    Phase.BEGIN: {Phase.PUBLISH, Phase.ALONE, Phase.FOLLOW},
    Phase.PUBLISH: {Phase.FOLLOW},
}
OURS = CoordinationRecord(CoordinationMode.PERMITS, 1)
RECORDS = (
    None,
    OURS,
    CoordinationRecord(CoordinationMode.PERMITS, 2),
    CoordinationRecord(CoordinationMode.REDIS, 1, "e1", "r1", 5),
)
AGES = (0.0, TIMES.patience, TIMES.trust + TIMES.margin)


def every_case() -> Iterator[tuple[CoordinationState, CoordinationObservation]]:
    cases = product(Phase, AGES, (None, 1, 2), RECORDS, (0.0, TIMES.trust), Redis, AGES, (0, 1))
    for phase, lasted, term, record, read, redis, for_, done in cases:
        seen = CoordinationObservation(NOW, term, record, NOW - read, redis, NOW - for_, bool(done))
        yield CoordinationState(phase, NOW - lasted, 1), seen


def leads_on(state: CoordinationState, seen: CoordinationObservation) -> bool:
    """The lease that the phase was entered with is held, and the record still says so."""
    return seen.term == state.term and seen.record == OURS


def test_phases_follow_their_edges_each_with_its_proof() -> None:
    taken = set()
    for state, seen in every_case():
        after = step(state, seen, TIMES)
        if after.phase is state.phase:
            assert after.since == state.since
            continue
        taken.add((state.phase, after.phase))
        assert after.since == NOW
        match after.phase:
            case Phase.CLAIM:
                assert seen.term is not None
                assert seen.record is not None
            case Phase.DRAIN:
                assert seen.done
                assert seen.term == state.term
            case Phase.LOAD:
                assert NOW - state.since > TIMES.trust
                assert leads_on(state, seen)
            case Phase.ALONE | Phase.BEGIN | Phase.PUBLISH:
                assert leads_on(state, seen)
            case Phase.FOLLOW:
                pass
    assert taken == {(a, b) for a in EDGES for b in EDGES[a]}


def test_nobody_answers_without_the_lease_or_what_it_has_read_lately() -> None:
    answered = set()
    for state, seen in every_case():
        now = answers(state, seen, TIMES)
        answered.add(now)
        match now:
            case AnswerSource.PERMITS:
                assert state.phase is Phase.ALONE
                assert leads_on(state, seen)
            case AnswerSource.REDIS:
                assert state.phase is Phase.FOLLOW
                assert seen.record is not None
                assert seen.record.mode is CoordinationMode.REDIS
                assert seen.redis is Redis.OURS
                assert NOW - seen.read_at < TIMES.trust
            case AnswerSource.NOTHING:
                pass
    assert answered == set(AnswerSource)


def test_a_leader_soon_does_without_a_redis_that_is_away_and_at_once_without_a_stranger() -> None:
    record = CoordinationRecord(CoordinationMode.REDIS, 1, "e1", "r1")
    for redis, for_, claims in (
        (Redis.AWAY, TIMES.patience - 0.1, False),
        (Redis.AWAY, TIMES.patience, True),
        (Redis.STRANGE, 0.0, True),
        (Redis.OURS, 60.0, False),
    ):
        seen = CoordinationObservation(NOW, 1, record, NOW, redis, NOW - for_)
        assert (step(CoordinationState(), seen, TIMES).phase is Phase.CLAIM) == claims
        assert step(CoordinationState(), replace(seen, term=None), TIMES).phase is Phase.FOLLOW


# -- several replicas -----------------------------------------------------------------------------


@dataclass
class Replica:
    """As `charge.shared.Shared` does it, on a server and a Redis that are numbers."""

    state: CoordinationState = field(default_factory=CoordinationState)
    record: CoordinationRecord | None = None
    version: int = 0
    read_at: float = float("-inf")
    redis: Redis = Redis.AWAY
    redis_since: float = 0.0
    begun: CoordinationRecord | None = None


@dataclass
class Server:
    record: CoordinationRecord = field(
        default_factory=lambda: CoordinationRecord(CoordinationMode.PERMITS)
    )
    version: int = 1
    late: list[tuple[int, CoordinationRecord]] = field(default_factory=list)

    def write(self, version: int, record: CoordinationRecord) -> bool:
        if version != self.version:
            return False
        self.record, self.version = record, version + 1
        return True


REPLICA = st.integers(0, 2)


class Replicas(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.now, self.term, self.leader = 1000.0, 1, 0
        self.server = Server()
        self.redis, self.reign, self.epochs = ("", "r1"), 1, 0
        self.replicas = [Replica() for _ in range(3)]
        self.bring_up()

    def bring_up(self) -> None:
        """Until all answer by Redis: what may go wrong begins there."""
        for _ in range(25):
            for i in range(3):
                self.looks_around(i, False, "done")
            self.time_passes(0.5)

    def seen(self, i: int, done: bool = False) -> CoordinationObservation:
        r = self.replicas[i]
        term = self.term if i == self.leader else None
        return CoordinationObservation(
            self.now, term, r.record, r.read_at, r.redis, r.redis_since, done
        )

    @rule(i=REPLICA)
    def reads_the_record(self, i: int) -> None:
        r = self.replicas[i]
        r.record, r.version, r.read_at = self.server.record, self.server.version, self.now

    @rule(i=REPLICA, away=st.booleans())
    def asks_redis(self, i: int, away: bool) -> None:
        r, record = self.replicas[i], self.replicas[i].record
        ours = record is not None and (record.epoch, record.replid) == self.redis
        now = Redis.AWAY if away else Redis.OURS if ours else Redis.STRANGE
        if now is not r.redis:
            r.redis, r.redis_since = now, self.now

    @rule(i=REPLICA, fate=st.sampled_from(["done", "done", "done", "lost", "unheard", "late"]))
    def goes_on(self, i: int, fate: str) -> None:
        r = self.replicas[i]
        done = False
        for _ in range(10):
            after = step(r.state, self.seen(i, done), TIMES)
            moved, r.state = after.phase is not r.state.phase, after
            if not moved and (done or not self.act(i, fate)):
                return
            done = not moved

    def act(self, i: int, fate: str) -> bool:
        r = self.replicas[i]
        match r.state.phase:
            case Phase.CLAIM:
                return self.write(
                    r, CoordinationRecord(CoordinationMode.PERMITS, r.state.term), fate
                )
            case Phase.LOAD:
                return fate == "done"
            case Phase.BEGIN:
                self.epochs += 1
                self.redis = (f"e{self.epochs}", self.redis[1])
                r.begun = CoordinationRecord(CoordinationMode.REDIS, r.state.term, *self.redis)
                return fate == "done"
            case Phase.PUBLISH:
                assert r.begun is not None
                return self.write(r, r.begun, fate)
            case _:
                return False

    def write(self, r: Replica, record: CoordinationRecord, fate: str) -> bool:
        if fate == "late":
            self.server.late.append((r.version, record))
        written = fate in ("done", "unheard") and self.server.write(r.version, record)
        if fate != "done" or not written:
            r.record = None
            return False
        r.record, r.version, r.read_at = record, self.server.version, self.now
        if record.mode is CoordinationMode.REDIS:
            r.redis, r.redis_since = Redis.OURS, self.now
        return True

    @rule(i=REPLICA, away=st.booleans(), fate=st.sampled_from(["done", "done", "late"]))
    def looks_around(self, i: int, away: bool, fate: str) -> None:
        self.reads_the_record(i)
        self.asks_redis(i, away)
        self.goes_on(i, fate)

    @rule(i=REPLICA, rounds=st.integers(4, 20), away=st.booleans())
    def one_is_alone_with_the_server(self, i: int, rounds: int, away: bool) -> None:
        """The others are frozen, or cut off from it."""
        for _ in range(rounds):
            self.looks_around(i, away, "done")
            self.never_two_who_do_not_know_of_each_other()
            self.time_passes(0.5)

    @rule()
    def a_late_write_arrives(self) -> None:
        if self.server.late:
            self.server.write(*self.server.late.pop(0))

    @rule(seconds=st.sampled_from([0.5, 2.0, 7.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(i=REPLICA)
    def another_leads(self, i: int) -> None:
        self.leader, self.term = i, self.term + 1

    @rule(i=REPLICA)
    def a_process_starts_anew(self, i: int) -> None:
        self.replicas[i] = Replica()

    @rule(kept=st.booleans())
    def redis_restarts_or_another_is_master(self, kept: bool) -> None:
        self.reign += 1
        self.redis = (self.redis[0] if kept else "", f"r{self.reign}")

    @invariant()
    def never_two_who_do_not_know_of_each_other(self) -> None:
        if not hasattr(self, "server"):
            return
        by = [(answers(r.state, self.seen(i), TIMES), r) for i, r in enumerate(self.replicas)]
        asked = [(how, r) for how, r in by if how is not AnswerSource.NOTHING]
        if any(how is AnswerSource.PERMITS for how, _ in asked):
            assert len(asked) == 1
        assert len({r.record for _, r in asked}) <= 1


TestReplicas = Replicas.TestCase
TestReplicas.settings = settings(
    stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
)


def test_without_trouble_all_replicas_come_to_answer_by_redis() -> None:
    world = Replicas()
    world.begin()
    by = [answers(r.state, world.seen(i), TIMES) for i, r in enumerate(world.replicas)]
    assert by == [AnswerSource.REDIS] * 3
