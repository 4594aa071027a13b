"""How old Leases are by our own clock: what is known, when nothing is, who has to look again."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.clock import FakeClock, settle
from support.remedy_facts import Facts, a_rule
from support.running import running

from kubenode.runtime.loopdelay import Span
from remedy.remedier.leases import (
    FORGOTTEN,
    RENEWED_WITHIN,
    SOON,
    LeaseAges,
    Renewal,
    bounds,
    decode_renewal,
)

SECOND = timedelta(seconds=1)
HUNG: dict[str, Any] = {"fact": {"name": "node.leaseAge", "above": 15}}


class Cache:
    """Proven current at every moment, until `deaf` says since when it is not."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.deaf: float | None = None
        self.late: Sequence[Span] = ()

    def age(self) -> float:
        return 0.0 if self.deaf is None else self._clock.monotonic() - self.deaf

    def fresh(self, limit: float) -> bool:
        return self.age() <= limit

    def delays(self) -> Sequence[Span]:
        return self.late


class Fleet:
    """Leases that are renewed every ten seconds unless they are silent."""

    def __init__(self, *names: str, duration: int = 40, bounds: dict[str, Any] = HUNG) -> None:
        self.clock = FakeClock()
        self.cache = Cache(self.clock)
        self.woken: list[str] = []
        self.ages = LeaseAges(self.cache, self.clock, self.woken.append)
        self.ages.rules_loaded([a_rule("hung", when=bounds)])
        self.duration, self.told = duration, dict[str, Renewal]()
        self.silent: set[str] = set()
        self.renew(*names)
        self.beat(11)
        self.woken.clear()

    def renew(self, *names: str) -> None:
        for name in names:
            at = f"2026-01-01T00:00:{self.clock.monotonic():.6f}Z"
            new = decode_renewal(
                b'{"metadata":{"name":"%s","namespace":"kube-node-lease","resourceVersion":"1"},'
                b'"spec":{"renewTime":"%s","leaseDurationSeconds":%d}}'
                % (name.encode(), at.encode(), self.duration)
            )
            self.ages.changed(f"kube-node-lease/{name}", self.told.get(name), new)
            self.told[name] = new

    def beat(self, seconds: int) -> None:
        """Time passes, a second at a time; every tenth those renew that are not silent."""
        for _ in range(seconds):
            self.clock.step(SECOND)
            if self.cache.deaf is None and self.clock.monotonic() % 10 == 0:
                self.renew(*(name for name in self.told if name not in self.silent))
            self.ages.turn()

    def gone(self, name: str) -> None:
        self.ages.changed(name, self.told.pop(name), None)


def test_the_age_is_ours_and_ends_with_the_renewal() -> None:
    fleet = Fleet("a", "b", "c")
    assert fleet.ages.age("a") == 1.0
    fleet.silent = {"a"}
    fleet.beat(11)
    assert fleet.ages.age("a") == 12.0 and fleet.ages.age("b") == 2.0
    fleet.clock.set_wall(timedelta(hours=1))
    assert fleet.ages.age("a") == 12.0, "no wall clock counts, ours as little as the host's"
    fleet.renew("a")
    assert fleet.ages.age("a") == 0.0
    assert fleet.ages.age("nobody") is None


def test_a_node_is_woken_when_its_age_passes_a_bound_and_when_it_is_back_and_never_else() -> None:
    fleet = Fleet("a", "b", "c")
    fleet.beat(200)
    assert fleet.woken == [], "those that renew wake nobody"
    fleet.silent = {"a"}
    fleet.renew("a", "b", "c")
    fleet.beat(15)
    assert fleet.woken == []
    fleet.beat(1)
    assert fleet.woken == ["a"] and fleet.ages.age("a") == 16.0
    fleet.beat(20)
    assert fleet.woken == ["a"]
    fleet.silent = set()
    fleet.beat(10)
    assert fleet.woken.count("a") == 2
    fleet.beat(60)
    assert fleet.woken.count("a") == 2


def test_every_bound_of_a_rule_wakes_once() -> None:
    two = {"any": [HUNG, {"fact": {"name": "node.leaseAge", "above": 120}}]}
    fleet = Fleet("a", "b", "c", bounds=two)
    fleet.silent = {"a"}
    for at in (15, 16, 119, 121):
        fleet.woken.clear()
        while (age := fleet.ages.age("a")) is None or age <= at:
            fleet.beat(1)
    assert fleet.woken == ["a"]
    assert bounds([a_rule("hung", when=two)]) == {15.0, 120.0}


def test_nobody_is_woken_for_a_fact_that_no_rule_asks() -> None:
    fleet = Fleet("a", "b", "c", bounds={"condition": {"type": "Ready", "status": "Unknown"}})
    fleet.silent = {"a"}
    fleet.beat(400)
    assert fleet.woken == []


def test_rules_that_change_are_heeded_for_those_that_are_silent_already() -> None:
    fleet = Fleet("a", "b", "c")
    fleet.silent = {"a"}
    fleet.beat(500)
    fleet.woken.clear()
    fleet.ages.rules_loaded([a_rule("h", when={"fact": {"name": "node.leaseAge", "above": 600}})])
    fleet.beat(200)
    assert fleet.woken == ["a"]


def test_while_we_hear_nothing_nobody_grows_older() -> None:
    """Our own blindness is never a hung host."""
    fleet = Fleet("a", "b", "c")
    fleet.cache.deaf = fleet.clock.monotonic()
    fleet.beat(19)
    assert [fleet.ages.age(name) for name in "abc"] == [1.0, 1.0, 1.0]
    fleet.beat(2)
    assert [fleet.ages.age(name) for name in "abc"] == [None, None, None]
    fleet.beat(300)
    assert fleet.woken == []
    fleet.cache.deaf = None
    fleet.renew("a", "b")  # the list after the outage: only c has not been renewed meanwhile
    assert fleet.ages.age("a") == 0.0
    assert fleet.ages.age("c") == 322.0


def test_f15_when_most_fall_silent_at_once_nothing_is_known() -> None:
    fleet = Fleet(*"abcde")
    fleet.silent = {"a", "b", "c"}
    fleet.beat(30)
    assert [fleet.ages.age(name) for name in "abcde"] == [None] * 5
    fleet.woken.clear()
    fleet.silent = {"a", "b"}
    fleet.beat(10)
    assert fleet.ages.age("a") == 41.0, "two of five are hosts that hang"
    assert {"a", "b"} <= set(fleet.woken), "who was silent in the dark is looked at in the light"


def test_hosts_that_are_down_for_long_do_not_blind_us() -> None:
    fleet = Fleet(*"abcdef")
    fleet.silent = set("abcd")
    fleet.beat(int(FORGOTTEN) + 20)
    assert fleet.ages.age("a") is not None
    assert fleet.ages.age("f") is not None


def test_two_nodes_that_are_all_there_is_do_not_fall_silent_both() -> None:
    fleet = Fleet("a", "b")
    fleet.silent = {"a", "b"}
    fleet.beat(30)
    assert fleet.ages.age("a") is None
    alone = Fleet("a")
    alone.silent = {"a"}
    alone.beat(30)
    assert alone.ages.age("a") == 31.0


def test_what_was_never_renewed_before_our_eyes_is_unknown_until_it_is_overdue() -> None:
    clock = FakeClock()
    ages = LeaseAges(Cache(clock), clock)
    ages.changed("a", None, decode_renewal(b'{"metadata":{"name":"a"},"spec":{"renewTime":"x"}}'))
    clock.step(15 * SECOND)
    assert ages.age("a") is None
    clock.step(SECOND)
    assert ages.age("a") == 16.0, "so old at least"


def test_a_lease_that_is_renewed_more_seldom_is_not_late_before_its_own_time() -> None:
    fleet = Fleet("a", "b", "c", duration=200)
    fleet.silent = {"a"}
    fleet.renew("a")
    fleet.beat(10)
    assert fleet.ages.age("a") == 10.0
    fleet.beat(60)
    assert fleet.ages.age("a") is None and "a" not in fleet.woken
    fleet.beat(6)
    assert fleet.ages.age("a") == 76.0 and "a" in fleet.woken


def test_another_write_to_a_lease_is_no_renewal() -> None:
    fleet = Fleet("a", "b", "c")
    fleet.beat(5)
    before = fleet.told["a"]
    same = Renewal(before.metadata, before.spec)
    fleet.ages.changed("a", before, same)
    assert fleet.ages.age("a") == 6.0


def test_a_node_that_is_gone_leaves_nothing_behind() -> None:
    fleet = Fleet("a", "b", "c")
    fleet.silent = {"a"}
    fleet.beat(30)
    fleet.gone("a")
    fleet.woken.clear()
    fleet.beat(400)
    assert fleet.woken == [] and fleet.ages.age("a") is None
    fleet.renew("a")
    fleet.silent = set()
    fleet.beat(60)
    assert fleet.woken == [] and fleet.ages.age("a") is not None
    assert sum(len(names) for names in fleet.ages._wheel.values()) <= 4


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcdefg"), st.integers(1, 40)), max_size=25))
def test_an_age_is_the_time_since_the_last_renewal_or_unknown(
    steps: list[tuple[str, int]],
) -> None:
    fleet = Fleet(*"abcdefg")
    last = dict.fromkeys("abcdefg", fleet.clock.monotonic() - 1)
    for name, seconds in steps:
        fleet.clock.step(seconds * SECOND)
        fleet.ages.turn()
        fleet.renew(name)
        last[name] = fleet.clock.monotonic()
        for each, at in last.items():
            assert fleet.ages.age(each) in (None, fleet.clock.monotonic() - at)
    places = sum(len(names) for names in fleet.ages._wheel.values())
    assert places <= len(last) * (1 + FORGOTTEN / SOON), "what was left behind is soon passed"


async def test_the_wheel_turns_by_itself() -> None:
    fleet = Fleet("a", "b", "c")
    fleet.silent = {"a"}
    async with running(fleet.ages.run()):
        for _ in range(16):
            await fleet.clock.advance(SECOND)
        await settle()
    assert "a" in fleet.woken


@pytest.mark.parametrize(
    ("age", "truth"), [(None, "unknown"), (3.0, "false"), (15.0, "false"), (15.5, "true")]
)
def test_rules_compare_the_age(age: float | None, truth: str) -> None:
    world = Facts()
    world.load(hung={"when": HUNG})
    world.node("a")
    world.store._leases = _Told(age)
    assert str(world.evidence("a", "hung").name).lower() == truth


class _Told:
    def __init__(self, age: float | None) -> None:
        self._age = age

    def age(self, name: str) -> float | None:
        return self._age

    def changes_at(self, name: str) -> None:
        return None

    def rules_loaded(self, rules: Any) -> None:
        return None


# -- our own event loop was late -------------------------------------------------------------------


def stopped(fleet: Fleet, seconds: int) -> None:
    """Our process does nothing for so long, and reads nothing; then its loop turns in time."""
    began = fleet.clock.monotonic()
    fleet.clock.step(seconds * SECOND)
    fleet.cache.late = (*fleet.cache.late, (began, fleet.clock.monotonic()))


def test_nobody_is_silent_until_one_report_after_our_loop_has_caught_up() -> None:
    fleet = Fleet("a", "b", "c")
    stopped(fleet, 40)
    for _ in range(int(RENEWED_WITHIN)):
        fleet.ages.turn()
        assert all((fleet.ages.age(name) or 0.0) <= SOON for name in "abc")
        assert not fleet.ages.blind and fleet.woken == []
        fleet.clock.step(SECOND)
    fleet.renew("a", "b", "c")
    fleet.ages.turn()
    assert fleet.woken == [] and fleet.ages.age("a") == 0.0


def test_who_stays_silent_after_our_loop_has_caught_up_is_silent() -> None:
    fleet = Fleet("a", "b", "c")
    stopped(fleet, 40)
    fleet.renew("a", "b")
    fleet.silent.add("c")
    fleet.beat(int(RENEWED_WITHIN) + int(SOON) + 1)
    age = fleet.ages.age("c")
    assert age is not None and age > SOON and fleet.woken == ["c"]


def test_who_was_silent_before_our_loop_was_late_is_no_younger_after_it() -> None:
    fleet = Fleet("a", "b", "c")
    fleet.silent.add("c")
    fleet.beat(30)
    before = fleet.ages.age("c")
    stopped(fleet, 40)
    fleet.renew("a", "b")
    after = fleet.ages.age("c")
    assert before is not None and after is not None and before <= after < before + 1.0


def test_leases_that_their_nodes_left_behind_do_not_blind_a_new_leader() -> None:
    clock = FakeClock()
    live = {f"n{i}" for i in range(20)}
    ages = LeaseAges(Cache(clock), clock, expected=live.__contains__)
    told: dict[str, Renewal] = {}

    def renew(name: str, at: str) -> None:
        new = decode_renewal(
            b'{"metadata":{"name":"%s"},"spec":{"renewTime":"%s"}}' % (name.encode(), at.encode())
        )
        ages.changed(name, told.get(name), new)
        told[name] = new

    for i in range(60):
        renew(f"left{i}", "2025")
    for second in range(1, 100):
        clock.step(SECOND)
        if second % 10 == 1:
            for name in live - ({"n7"} if second > 40 else set()):
                renew(name, str(second))
        ages.turn()
        if second > 20:
            assert not ages.blind
    assert ages.age("n7") == 68.0


def test_leases_of_nodes_that_are_there_count_though_nobody_renews_them() -> None:
    """A leader that starts in the middle of an outage hears nobody."""
    clock = FakeClock()
    ages = LeaseAges(Cache(clock), clock)
    for i in range(20):
        ages.changed(f"n{i}", None, decode_renewal(b'{"metadata":{"name":"n%d"}}' % i))
    for _ in range(30):
        clock.step(SECOND)
        ages.turn()
    assert ages.blind
