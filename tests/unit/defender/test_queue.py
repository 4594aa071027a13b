"""Who waits, in which order, who is called, and that nobody stands in the way for long."""

from collections import Counter
from datetime import timedelta

import pytest
from support.clock import T0
from support.defender_core import a_node, a_policy, an_ask
from support.defender_queue import ZONE, WaitingRoom, a_job, cluster, holder_of

from defender.decision.queue.calls import DEAF
from defender.decision.queue.entry import PATIENCE, PENALTY
from defender.decision.queue.queue import NEXT
from defender.decision.queue.times import QueueTimes
from kubenode.api.v1alpha1 import Disruption, Operation, Reason
from kubenode.api.v1alpha1.noderemedier import Severity

TIMES = QueueTimes()
GRACE, LOST = TIMES.grace, TIMES.lost
CRITICAL, WARNING, INFO = Severity.CRITICAL, Severity.WARNING, Severity.INFO


def a_room(nodes: int = 10, most: int = 1) -> WaitingRoom:
    """Of one zone, with all slots taken by n0, n1, ..."""
    room = WaitingRoom(cluster(most))
    room.fleet(nodes)
    return room


# -- order ----------------------------------------------------------------------------------------


def test_order_is_deadline_then_severity_then_age() -> None:
    room = a_room()
    room.hold("n0")
    room.wait("n1", severity=INFO)
    room.step(seconds=1)
    room.wait("n2", severity=WARNING)
    room.step(seconds=1)
    room.wait("n3", severity=WARNING)
    room.wait("n4", severity=CRITICAL)
    room.wait("n5", severity=INFO, deadline=T0 + timedelta(hours=5))
    room.wait("n6", severity=INFO, deadline=T0 + timedelta(hours=4))
    assert room.order() == ["n6", "n5", "n4", "n2", "n3", "n1"]
    assert [room.place(node).place for node in room.order()] == [1, 2, 3, 4, 5, 6]


def test_age_is_that_of_the_fault_where_it_is_known() -> None:
    room = a_room()
    room.hold("n0")
    room.fault("n2", T0 - timedelta(minutes=20))
    room.wait("n1")
    room.step(minutes=1)
    room.wait("n2")
    assert room.order() == ["n2", "n1"]
    assert room.place("n2").fault_since == T0 - timedelta(minutes=20)
    assert room.place("n2").since >= T0 + timedelta(minutes=1)


def test_a_node_that_was_repaired_before_comes_later() -> None:
    room = a_room()
    room.give_back(room.hold("n1")[0])
    room.hold("n0")
    room.wait("n1", holder="another-job")
    room.step(minutes=1)
    room.wait("n2")
    assert room.order() == ["n2", "n1"]
    room.step(minutes=1)
    room.wait("n3")
    room.wait("n1", holder="another-job")
    assert room.order() == ["n2", "n3", "n1"], "not forever: as if its fault were younger"
    for _ in range(int(PENALTY / timedelta(minutes=1))):
        room.step(minutes=1)
        room.wait("n2", "n3")
        room.wait("n1", holder="another-job")
    room.wait("n4")
    assert room.order() == ["n2", "n3", "n1", "n4"]


def test_asking_again_keeps_the_place() -> None:
    room = a_room()
    room.hold("n0")
    room.wait("n1", "n2")
    room.step(seconds=30)
    room.wait("n2", "n3")
    room.wait("n1")
    assert room.order() == ["n1", "n2", "n3"]
    assert room.place("n1").since == T0


def test_zones_take_turns() -> None:
    room = WaitingRoom(cluster(1))
    room.nodes(a_node("first"))
    many, one = room.zone("a", 30), room.zone("b", 1)
    permit = room.hold("first")[0]
    room.wait(*many)
    room.step(seconds=1)
    room.wait(*one)
    assert room.place("b0").place <= 2
    served: list[str] = []
    while len(served) < 4:
        (called,) = room.give_back(permit)
        permit = room.hold(called)[0]
        served.append(called)
    assert "b0" in served[:2], "thirty faults of one zone are not all before one of another"
    assert served[0] == "a0" and served[-1] == "a2"


def test_a_zone_that_comes_late_gets_its_turn_and_no_more() -> None:
    room = WaitingRoom(cluster(1))
    room.nodes(a_node("first"))
    a, b = room.zone("a", 20), room.zone("b", 20)
    permit = room.hold("first")[0]
    room.wait(*a)
    served: list[str] = []
    for turn in range(16):
        if turn == 6:
            room.wait(*b)
        (called,) = room.give_back(permit)
        permit = room.hold(called)[0]
        served.append(called[0])
    assert served[:6] == ["a"] * 6
    assert abs(served[6:].count("a") - served[6:].count("b")) <= 1, served


def test_nobody_starves_behind_those_that_matter_more() -> None:
    room = a_room(400)
    permit = room.hold("n0")[0]
    room.wait("n1", severity=INFO)
    for i in range(2, 200):
        room.step(minutes=1)
        room.wait(f"n{i}", severity=CRITICAL)
        room.wait("n1", severity=INFO)
        called = room.give_back(permit)
        if called == ["n1"]:
            break
        permit = room.hold(called[0])[0]
    waited = room.now - T0
    assert PATIENCE[INFO] <= waited <= PATIENCE[INFO] + timedelta(minutes=2)


# -- calling --------------------------------------------------------------------------------------


def test_a_slot_that_became_free_is_kept_for_the_next_in_line() -> None:
    room = a_room()
    permit = room.hold("n0")[0]
    room.wait("n1", "n2")
    assert room.give_back(permit) == ["n1"]
    assert room.place("n1").called
    no = room.ask(an_ask("n3"))
    assert (no.reason, no.scope) == (Reason.CONCURRENCY_LIMIT, "cluster")
    assert "others who wait" in no.message
    assert not room.ask(an_ask("n2")).allowed
    assert room.ask(an_ask("n1")).allowed


def test_as_many_are_called_as_there_are_slots() -> None:
    room = a_room(20, most=3)
    permits = room.hold("n0", "n1", "n2")
    room.wait(*(f"n{i}" for i in range(3, 20)))
    room.release(permits[0])
    room.release(permits[1])
    assert room.look() == ["n3", "n4"]
    assert room.look() == []


def test_a_newcomer_does_not_hide_that_a_slot_became_free() -> None:
    """Its own time to look again is earlier than that of those who wait."""
    room = a_room()
    permit = room.hold("n0")[0]
    room.wait("n1")
    room.step(seconds=10)
    room.queue.listen(False)
    room.release(permit)
    room.queue.news.of_scope("cluster")
    first = room.judge(an_ask("n2", dry_run=True)).allowed
    room.queue.listen(True)
    assert first and room.look() == ["n1"]


def test_as_many_are_called_as_the_rate_has_tokens() -> None:
    policy = a_policy(
        limits=[{"scope": "Cluster", "rate": {"count": 60, "per": "1h", "burst": 2}}],
        smallPool={"nodes": 0},
    )
    room = WaitingRoom(policy)
    room.fleet(10)
    room.hold("n0", "n1")
    room.wait("n2", "n3", "n4")
    room.step(seconds=59)
    assert room.called == []
    room.step(seconds=1)
    assert room.called == ["n2"], "a token each minute, and it is known when"
    room.hold("n2")
    room.step(seconds=61)
    assert room.called == ["n2", "n3"]


def test_who_matters_more_need_not_wait_for_one_that_was_called() -> None:
    room = a_room()
    permit = room.hold("n0")[0]
    room.wait("n1", severity=WARNING)
    room.give_back(permit)
    assert not room.judge(an_ask("n2", severity=WARNING)).allowed
    assert room.ask(an_ask("n3", severity=CRITICAL)).allowed


def test_one_that_does_not_come_stands_in_nobodys_way() -> None:
    room = a_room()
    permit = room.hold("n0")[0]
    room.wait("n1", "n2")
    assert room.give_back(permit) == ["n1"]
    room.step(seconds=GRACE.total_seconds())
    assert room.called == ["n1", "n2"], "the next one is called at once"
    room.step(seconds=GRACE.total_seconds())
    assert room.called == ["n1", "n2"], "and nobody twice who did not come"
    assert room.ask(an_ask("n3")).allowed
    room.wait("n1")
    permit = room.ledger.open()[0].name
    assert room.give_back(permit) == ["n1"], "who asks again is called again"


def test_a_kind_of_holder_that_never_comes_is_called_no_more() -> None:
    room = a_room(30)
    permit = room.hold("n0")[0]
    room.wait(*(f"n{i}" for i in range(1, 20)))
    room.release(permit)
    for _ in range(10):
        room.step(seconds=GRACE.total_seconds())
    assert len(room.called) == DEAF
    assert room.ask(an_ask("n20")).allowed
    room.release(room.ledger.open()[0].name)
    room.step(minutes=1)
    assert len(room.called) == DEAF + 1, "but tried again"
    room.wait("n9")
    assert room.ask(an_ask(room.called[-1])).allowed


def test_where_nobody_listens_no_slot_is_kept() -> None:
    room = WaitingRoom(cluster(1), listening=False)
    room.fleet(5)
    permit = room.hold("n0")[0]
    room.wait("n1")
    assert room.give_back(permit) == []
    assert room.ask(an_ask("n2")).allowed


def test_a_clock_that_is_set_back_keeps_no_slot() -> None:
    room = a_room()
    permit = room.hold("n0")[0]
    room.wait("n1")
    room.give_back(permit)
    room.now -= timedelta(hours=1)
    assert room.ask(an_ask("n2")).allowed


def test_a_pause_that_is_lifted_calls_those_it_held() -> None:
    paused = cluster(2)
    assert paused.spec is not None
    room = WaitingRoom(
        a_policy(limits=[{"scope": "Cluster", "maxConcurrent": 2}], pauses=[{"scope": "Cluster"}])
    )
    room.fleet(10)
    room.wait("n1", "n2", "n3")
    assert room.place("n1").reason is Reason.PAUSED
    room.control.govern([paused], room.now)
    assert room.look() == ["n1", "n2"]
    assert room.place("n3").reason is Reason.CONCURRENCY_LIMIT, "it waits for something else now"


def test_a_node_that_got_healthy_calls_those_that_minhealthy_held() -> None:
    room = WaitingRoom(a_policy(limits=[{"scope": "Cluster", "minHealthy": 98}]))
    room.fleet(100)
    room.fail("n0", "n1", "n2")
    room.wait("n0")
    assert room.place("n0").reason is Reason.MIN_HEALTHY
    room.nodes(a_node("n1"))
    assert room.look() == ["n0"]


def test_the_end_of_another_permit_on_the_node_calls_who_waited_for_it() -> None:
    room = a_room(10, most=5)
    permit = room.hold("n0")[0]
    room.wait("n0", holder="other")
    assert room.place_of("other", "n0").reason is Reason.NODE_BUSY
    assert room.give_back(permit) == ["other"]


def test_who_is_blocked_elsewhere_does_not_hold_up_the_others() -> None:
    room = WaitingRoom(
        a_policy(
            limits=[
                {"scope": "Cluster", "maxConcurrent": 2},
                {"scope": "Label", "label": ZONE, "maxConcurrent": 1},
            ],
            smallPool={"nodes": 0},
        )
    )
    a, b, c = room.zone("a", 10), room.zone("b", 10), room.zone("c", 10)
    room.hold(a[0])
    permit = room.hold(b[0])[0]
    room.wait(*a[1:], *b[1:])
    room.wait(*c)
    assert room.give_back(permit) in (["b1"], ["c0"])
    assert all(not node.startswith("a") for node in room.called)


def test_a_slot_of_another_kind_is_not_kept() -> None:
    room = WaitingRoom(cluster(1, classes=["Node"]))
    room.fleet(10)
    permit = room.hold("n0")[0]
    room.wait("n1")
    room.give_back(permit)
    assert room.ask(an_ask("n2", Disruption.PODS)).allowed, "the limit is not about its class"


def test_an_inevitable_evacuation_waits_for_nobody() -> None:
    room = a_room()
    permit = room.hold("n0")[0]
    room.wait("n1")
    room.give_back(permit)
    assert room.ask(an_ask("n2", operation=Operation.EVACUATE, inevitable=True)).allowed


# -- being told and forgotten ---------------------------------------------------------------------


def test_messages_hold_nothing_that_ticks() -> None:
    room = a_room(30, most=2)
    permit = room.hold("n0", "n1")[0]
    room.wait(*(f"n{i}" for i in range(2, 10)))
    room.give_back(permit)
    said = {room.judge(an_ask(f"n{i}")).message for i in range(10, 15)}
    room.wait(*(f"n{i}" for i in range(15, 25)))
    said |= {room.judge(an_ask(f"n{i}")).message for i in range(10, 15)}
    assert len(said) == 1


def test_the_next_in_line_look_soon_and_the_others_are_spread() -> None:
    room = a_room(2001)
    room.hold("n0")
    later = [room.ask(an_ask(f"n{i}")).look_again_at for i in range(1, 2001)]
    times = [(at - room.now).total_seconds() for at in later if at is not None]
    assert len(times) == 2000
    assert max(times[:NEXT]) <= 30
    assert max(times) <= 10 * 60
    busiest = max(Counter(int(t) for t in times).values())
    assert busiest <= 25, "no second in which they all come"


def test_who_stops_asking_is_forgotten() -> None:
    room = a_room()
    room.hold("n0")
    room.wait("n1")
    last = room.place("n1").requeue_at
    room.step(seconds=(last - room.now).total_seconds())
    assert len(room.queue) == 1
    room.step(seconds=LOST.total_seconds() + 1)
    assert len(room.queue) == 0


def test_a_job_that_is_over_waits_no_longer() -> None:
    room = a_room()
    room.hold("n0")
    room.fault("n1", T0)
    room.wait("n1", "n2")
    room.control.job_changed(a_job("n1"), a_job("n1", phase="Cancelled"), room.now)
    assert room.order() == ["n2"]


def test_who_was_granted_waits_no_longer() -> None:
    room = a_room()
    permit = room.hold("n0")[0]
    room.wait("n1")
    room.give_back(permit)
    room.hold("n1")
    assert len(room.queue) == 0 and room.queue.counts() == {}
    assert room.queue.position(holder_of("n1"), "n1") is None


@pytest.mark.parametrize("fields", [{"dry_run": True}, {"kind": "User"}])
def test_who_only_wants_to_know_does_not_wait(fields: dict[str, object]) -> None:
    room = a_room()
    room.hold("n0")
    ask = an_ask("n1")
    if "kind" in fields:
        ask = ask.model_copy(update={"holder": ask.holder.model_copy(update={"kind": "User"})})
    else:
        ask = ask.model_copy(update=fields)
    assert not room.judge(ask).allowed
    assert len(room.queue) == 0


def test_what_a_newcomer_would_be_told() -> None:
    room = a_room()
    room.hold("n0")
    room.wait("n1", "n2", severity=WARNING)
    ask = an_ask("n3", severity=CRITICAL, dry_run=True)
    no = room.judge(ask)
    assert room.queue.would_be(ask, no, room.now) == 0
    ask = an_ask("n3", severity=INFO, dry_run=True)
    assert room.queue.would_be(ask, no, room.now) == 2
    assert len(room.queue) == 2


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("defender.decision.queue.line.MOST_WAITING", 5)
    room = a_room(20)
    room.hold("n0")
    room.wait(*(f"n{i}" for i in range(1, 20)))
    assert len(room.queue) == 5
