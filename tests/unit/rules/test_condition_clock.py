"""Since when a condition holds, over restarts of its detector, of ours, and steps of our clock."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.clock import T0
from support.rules_builders import a_node, seconds

from kubenode.api.v1alpha1 import Expression
from kubenode.runtime.hosttime import host_time
from rules.atoms import read
from rules.facts import ConditionFact
from rules.history import ClockSteps, ConditionClock, ConditionReading
from rules.truth import Truth

SETTLE = 180
HEALTHY = {"KernelDeadlock": "KernelHasNoDeadlock", "ReadonlyFilesystem": "FilesystemIsNotReadOnly"}


@dataclass
class Detector:
    """node-problem-detector as recorded, and us: seconds go on, our wall clock may be set."""

    conditions: Sequence[str] = ("KernelDeadlock", "ReadonlyFilesystem")
    at: float = 0
    offset: float = 0
    clock: ConditionClock = field(default_factory=ConditionClock)
    steps: ClockSteps = field(default_factory=ClockSteps)
    posted: dict[str, tuple[str, str, float]] = field(default_factory=dict)
    scattered: bool = False
    """Each condition comes in a version of the Node of its own, the last one first."""
    _known: dict[str, ConditionReading] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.restart()

    @property
    def now(self) -> datetime:
        return T0 + seconds(self.at + self.offset)

    def wait(self, count: float) -> "Detector":
        self.at += count
        return self

    def restart(self) -> "Detector":
        self.posted = {t: ("False", HEALTHY[t], self.at) for t in self.conditions}
        return self.post()

    def set(self, status: str, reason: str = "DockerHung", type_: str = "KernelDeadlock") -> None:
        before = self.posted[type_]
        if before[:2] != (status, reason):
            self.posted[type_] = (status, reason, self.at)
        self.post()

    def fails(self) -> "Detector":
        self.set("True")
        return self

    def recovers(self) -> "Detector":
        self.set("False", HEALTHY["KernelDeadlock"])
        return self

    def set_our_clock(self, by: float) -> "Detector":
        self.offset += by
        return self.post()

    def post(self) -> "Detector":
        if step := self.steps.step(self.now, self.at):
            self.clock.stepped(step, self.now)
        heard = host_time(T0 + seconds(self.at))
        reports = {
            type_: ConditionReading(
                type_, status, reason, "", host_time(T0 + seconds(moved)), heard
            )
            for type_, (status, reason, moved) in self.posted.items()
        }
        self._known = {type_: self._known.get(type_, reports[type_]) for type_ in reports}
        for type_ in reversed(reports) if self.scattered else ():
            self._known[type_] = reports[type_]
            self.clock.take([*self._known.values()], self.now)
        self._known = reports
        self.clock.take([*reports.values()], self.now)
        return self

    @property
    def fact(self) -> ConditionFact:
        return self.clock.facts()["KernelDeadlock"]

    @property
    def age(self) -> float:
        """Seconds for which it has its status, as we see it."""
        return (self.now - self.fact.since).total_seconds()

    def truth(self, wanted: float, status: str = "True") -> Truth:
        parts = {"type": "KernelDeadlock", "status": status, "for": f"{wanted}s", "maxAge": "48h"}
        leaf = Expression.model_validate({"condition": parts}).leaf
        assert leaf is not None
        return read(leaf, a_node(self.fact), self.now).truth


def test_fault_keeps_its_age_when_its_detector_restarts() -> None:
    detector = Detector().wait(100).fails().wait(60).restart().wait(20).fails().wait(40)
    assert detector.age == 120
    assert detector.truth(120) is Truth.TRUE
    assert detector.truth(121) is Truth.FALSE


@pytest.mark.parametrize("types", [tuple(HEALTHY), tuple(reversed(HEALTHY))])
def test_restart_shows_when_it_comes_in_pieces(types: tuple[str, ...]) -> None:
    detector = Detector(types, scattered=True).wait(100).fails().wait(60).restart()
    assert detector.truth(0) is Truth.UNKNOWN
    assert detector.wait(20).fails().age == 80


def test_fault_keeps_its_age_over_restarts_as_long_as_most_of_it_was_seen() -> None:
    detector = Detector().wait(100).fails()
    for _ in range(4):
        detector.wait(60).restart().wait(40).fails()
    assert detector.age == 400
    detector.wait(60).restart().wait(40).fails()
    assert detector.age == 0, "200 s in which nobody said so"


def test_what_a_detector_says_when_it_starts_is_no_recovery() -> None:
    detector = Detector().wait(100).fails().wait(60).restart()
    assert detector.truth(0) is Truth.UNKNOWN
    assert detector.truth(0, "False") is Truth.UNKNOWN
    detector.wait(SETTLE - 1).post()
    assert detector.truth(0) is Truth.UNKNOWN
    detector.wait(1)
    assert detector.truth(0) is Truth.FALSE
    assert detector.truth(SETTLE, "False") is Truth.TRUE


def test_other_words_after_the_start_are_a_finding() -> None:
    detector = Detector().wait(100).fails().wait(60).restart().wait(5)
    detector.set("False", "CheckedAndFine")
    assert detector.truth(0) is Truth.FALSE
    assert detector.wait(5).fails().age == 0


def test_condition_that_was_fine_before_the_start_stays_fine() -> None:
    detector = Detector().wait(100).restart()
    assert detector.truth(0) is Truth.FALSE
    assert detector.age == 100


def test_fault_that_shows_only_long_after_the_start_is_a_new_one() -> None:
    detector = Detector().wait(100).fails().wait(600).restart().wait(SETTLE).post()
    assert detector.wait(1).fails().fact.settles is None
    assert detector.age == 0


def test_detector_that_was_away_for_long_begins_anew() -> None:
    """It died with the fault and came back: what was between nobody saw."""
    detector = Detector().wait(100).fails().wait(3600).restart()
    assert detector.truth(0) is Truth.UNKNOWN
    assert detector.wait(5).fails().age == 0


def test_recovery_that_is_reported_begins_anew() -> None:
    assert Detector().wait(100).fails().wait(60).recovers().wait(1).fails().age == 0


def test_detector_of_one_condition_makes_a_fault_look_younger_never_older() -> None:
    alone = Detector(("KernelDeadlock",)).wait(100).fails().wait(60).restart()
    assert alone.truth(0) is Truth.FALSE
    assert alone.wait(20).fails().age == 0


def test_two_faults_that_flap_in_step_are_no_restart() -> None:
    detector = Detector()
    for _ in range(20):
        detector.wait(10)
        for status in ("True", "False"):
            for type_ in HEALTHY:
                reason = "Bad" if status == "True" else HEALTHY[type_]
                detector.posted[type_] = (status, reason, detector.at)
            detector.post().wait(10 if status == "True" else 0)
    assert detector.fact.settles is None
    assert detector.wait(1).fails().age == 0


FIVE = (
    "CperHardwareErrorFatal",
    "ReadonlyFilesystem",
    "CorruptDockerOverlay2",
    "KernelDeadlock",
    "XfsShutdown",
)
"""What node-problem-detector posts by default."""


def post(clock: ConditionClock, at: float, status: str, types: Sequence[str] = FIVE) -> None:
    """All of one reporter in one patch, each with a new status."""
    when = T0 + seconds(at)
    stamps = host_time(when), host_time(when)
    clock.take([ConditionReading(t, status, f"{t}{status}", "", *stamps) for t in types], when)


def test_restart_of_a_detector_all_of_whose_conditions_were_faulty_shows() -> None:
    clock = ConditionClock()
    for at, status in ((0, "False"), (60, "True"), (120, "False"), (130, "True")):
        post(clock, at, status)
    assert {fact.since for fact in clock.facts().values()} == {T0 + seconds(60)}


def test_two_conditions_that_come_and_go_as_one_show_no_restart() -> None:
    """The kubelet and the runtime are unhealthy together, again and again: one cause."""
    clock = ConditionClock()
    for n in range(10):
        post(clock, 60 * n, "True" if n % 2 else "False", FIVE[:2])
    assert {fact.since for fact in clock.facts().values()} == {T0 + seconds(540)}


def test_kubelet_that_comes_back_not_ready_is_a_finding() -> None:
    """The node controller wrote Unknown; nobody has looked away, so nothing is wiped out."""
    clock = ConditionClock()
    kubelets = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
    for at, status in ((0, "False"), (100, "Unknown"), (160, "False")):
        post(clock, at, status, kubelets)
    assert {fact.settles for fact in clock.facts().values()} == {None}
    assert clock.facts()["Ready"].since == T0 + seconds(160)


def test_restart_of_another_detector_hides_no_recovery() -> None:
    clock = ConditionClock()

    def take(at: float, mine: str, mine_at: float, other_at: float, other_heard: float) -> None:
        mine_at_, other_at_ = host_time(T0 + seconds(mine_at)), host_time(T0 + seconds(other_at))
        heard = host_time(T0 + seconds(other_heard))
        mine_report = ConditionReading("Mine", mine, "", "", mine_at_, host_time(T0 + seconds(at)))
        other = ConditionReading("Other", "False", "", "", other_at_, heard)
        clock.take([mine_report, other], T0 + seconds(at))

    take(0, "True", 0, 0, 0)
    take(100, "False", 100, 95, 95)
    assert clock.facts()["Mine"].settles is None


def test_boot_ends_what_was_known_of_the_old_one() -> None:
    detector = Detector().wait(100).fails().wait(60).restart()
    detector.clock.booted()
    assert detector.wait(20).fails().age == 0


def test_condition_that_is_taken_off_the_node_is_forgotten() -> None:
    detector = Detector().wait(100).fails().wait(60)
    del detector.posted["KernelDeadlock"]
    assert set(detector.post().clock.facts()) == {"ReadonlyFilesystem"}


@pytest.mark.parametrize("by", [-86_400, -30, 30, 3600])
def test_setting_our_clock_makes_no_fault_older_and_loses_none(by: float) -> None:
    detector = Detector().wait(100).fails().wait(60).set_our_clock(by)
    assert detector.age == 60
    assert (detector.truth(60), detector.truth(61)) == (Truth.TRUE, Truth.FALSE)
    assert detector.fact.received_at <= detector.now
    assert detector.wait(30).age == 90


@pytest.mark.parametrize("by", [3600, -3600])
def test_silence_lasts_as_long_as_it_did_when_our_clock_is_set(by: float) -> None:
    detector = Detector().wait(100).fails().wait(60)
    assert detector.steps.step(detector.now, detector.at) == timedelta(0)
    detector.offset += by
    step = detector.steps.step(detector.now, detector.at)
    detector.clock.stepped(step, detector.now)
    assert detector.now - detector.fact.received_at == timedelta(seconds=60)


def test_clock_that_is_slewed_is_not_set() -> None:
    steps = ClockSteps()
    found = [steps.step(T0 + seconds(n * 1.0005), n) for n in range(10_000)]
    assert set(found) == {timedelta(0)}


# -- against a naive evaluator -------------------------------------------------------------------

OPS = ("fails", "recovers", "restart", "post", "reason", "clock")
SET_BY = st.integers(-5000, 5000).filter(lambda by: abs(by) > 1)
"""A second or less is taken for a clock that is slewed."""
HISTORIES = st.lists(st.tuples(st.integers(3, 250), st.sampled_from(OPS), SET_BY), max_size=14)
"""Seconds to wait, what happens then, and by how much our clock is set.

What a detector says within two seconds is of one start or of none: nobody can tell it apart.
"""


def play(
    history: Sequence[tuple[int, str, int]], alone: bool = False, scattered: bool = False
) -> Detector:
    detector = Detector(tuple(HEALTHY)[:1] if alone else tuple(HEALTHY), scattered=scattered)
    for wait, what, by in history:
        detector.wait(wait)
        match what:
            case "clock":
                detector.set_our_clock(by)
            case "reason" if detector.posted["KernelDeadlock"][0] == "True":
                detector.set("True", f"Reason{wait}")
            case "reason":
                detector.post()
            case _:
                getattr(detector, what)()
    return detector


def spans(history: Sequence[tuple[int, str, int]]) -> list[tuple[int, int | None, bool]]:
    """When the fault was reported: from, until (None: still), and whether a restart ended it."""
    found: list[tuple[int, int | None, bool]] = []
    at = 0
    for wait, what, _ in history:
        at += wait
        open_ = bool(found) and found[-1][1] is None
        if what == "fails" and not open_:
            found.append((at, None, False))
        elif what in ("recovers", "restart") and open_:
            found[-1] = (found[-1][0], at, what == "restart")
    return found


def naive_age(history: Sequence[tuple[int, str, int]], alone: bool) -> int | None:
    """Seconds for which the fault counts at the end; None: it is not there."""
    now = sum(wait for wait, _, _ in history)
    begin = seen = unseen = 0
    ended: tuple[int, bool] | None = None
    told = spans(history)
    for start, end, by_restart in told:
        gap = start - ended[0] if ended is not None and ended[1] and not alone else None
        if gap is not None and unseen + gap <= min(SETTLE, seen):
            unseen += gap
        else:
            begin, seen, unseen = start, 0, 0
        seen += (end if end is not None else now) - start
        ended = (end, by_restart) if end is not None else None
    return now - begin if told and told[-1][1] is None else None


@given(HISTORIES, st.booleans(), st.booleans())
def test_age_is_what_a_naive_evaluator_says(
    history: list[tuple[int, str, int]], alone: bool, scattered: bool
) -> None:
    detector, wanted = play(history, alone, scattered), naive_age(history, alone)
    if wanted is None:
        assert detector.fact.status == "False"
        assert detector.truth(0) is not Truth.TRUE
        return
    assert detector.age == wanted
    for duration, truth in ((wanted - 1, True), (wanted, True), (wanted + 1, False)):
        if duration >= 0:
            assert detector.truth(duration) is Truth.of(truth)


@given(HISTORIES)
def test_most_of_the_age_of_a_fault_was_reported(history: list[tuple[int, str, int]]) -> None:
    """Flapping never adds up to a time held: what nobody reported is bounded."""
    detector = play(history)
    if detector.fact.status != "True":
        return
    begin = detector.at - detector.age
    told = [(max(a, begin), detector.at if b is None else b) for a, b, _ in spans(history)]
    seen = sum(max(b - a, 0) for a, b in told)
    assert detector.age - seen <= min(SETTLE, seen)


@given(HISTORIES, st.integers(0, 400))
def test_answer_stands_until_it_says_that_it_flips(
    history: list[tuple[int, str, int]], wanted: int
) -> None:
    detector = play(history)
    leaf = Expression.model_validate(
        {"condition": {"type": "KernelDeadlock", "for": f"{wanted}s", "maxAge": "48h"}}
    ).leaf
    assert leaf is not None
    node, now = a_node(detector.fact), detector.now
    first = read(leaf, node, now)
    assert first.flips_at is not None and first.flips_at > now
    assert read(leaf, node, first.flips_at - seconds(1)).truth is first.truth
    assert read(leaf, node, first.flips_at).truth is not first.truth
