"""A rollout by one set, over machines that are only modelled."""

from datetime import timedelta

import pytest
from support.rollout_model import TICK, Host, World, fleet, quick

from kubenode.api.rollouts import RolloutReason
from machine.componentset.member import MemberState
from machine.componentset.rollout import ConditionMessage
from machine.inspection.port import InspectionAnswer, InspectionResult


def test_rollout_goes_in_growing_batches_to_its_end() -> None:
    world = World.of(*fleet(20), strategy=quick(batches=[1, 3, 50], max_unavailable=20))
    sizes: dict[int, set[str]] = {}
    for _ in range(200):
        world.turn()
        for host in world.hosts.values():
            if host.wanted is not None and host.wanted.batch:
                sizes.setdefault(host.wanted.batch, set()).add(host.name)
        if world.rollout.phase == "Completed":
            break
    assert {index: len(names) for index, names in sizes.items()} == {1: 1, 2: 3, 3: 16}
    assert world.rollout.current == "B" and world.on("B") == sorted(world.hosts)
    assert all(host.history == ["B"] for host in world.hosts.values())


def test_completed_plans_nothing_more() -> None:
    world = World.of(*fleet(5))
    world.to_phase("Completed")
    before = world.rollout
    world.run(20)
    assert world.rollout == before and world.plan.moves == ()
    assert world.plan.progressing == (False, ConditionMessage("Completed"))


def test_same_again_at_every_look_until_the_machines_show_it() -> None:
    world = World.of(*fleet(9), strategy=quick(batches=[3], max_unavailable=9))
    first = world.decide().moves
    assert len(first) == 3
    assert world.decide().moves == first


def test_f30_bad_artefact_touches_one_machine_and_the_stop_names_it() -> None:
    hosts = fleet(10)
    for host in hosts:
        host.bad = {"B"}
    world = World.of(*hosts)
    world.run(300)
    (touched,) = world.assigned("B")
    assert len(world.on("A")) == 10, "the agent undid the one"
    assert world.rollout.phase == "Paused" and world.rollout.batch.failed == (touched,)
    assert world.plan.paused is not None and world.plan.paused.reason == RolloutReason.AUTO_PAUSED
    assert touched in world.plan.paused.message


def test_invariant_06_a_silent_host_is_named_after_its_timeout() -> None:
    world = World.of(*fleet(10))
    world.turn()
    (touched,) = world.assigned("B")
    world.hosts[touched].answers = False
    world.run(300)
    assert world.assigned("B") == [touched]
    assert world.plan.paused is not None and touched in world.plan.paused.message
    assert "does not answer" in world.plan.paused.message


def test_f30_node_that_never_gets_ready_stops_the_set_though_its_agent_is_content() -> None:
    world = World.of(*fleet(10))
    world.turn()
    (touched,) = world.assigned("B")
    world.hosts[touched].ready = False
    world.run(200)
    assert world.assigned("B") == [touched]
    assert world.plan.paused is not None and "not Ready" in world.plan.paused.message
    assert len(world.hosts[touched].acted) == 1, "what is in force is not tried again"


def test_failed_machine_is_tried_again_as_often_as_allowed() -> None:
    hosts = fleet(4)
    for host in hosts:
        host.bad = {"B"}
    world = World.of(*hosts, strategy=quick(max_attempts=3))
    world.run(100)
    (touched,) = world.assigned("B")
    assert world.hosts[touched].acted == ["B"] * 3


def test_stopped_set_goes_on_after_a_person_paused_it_and_let_it_go() -> None:
    hosts = fleet(6)
    for host in hosts:
        host.bad = {"B"}
    world = World.of(*hosts)
    world.to_phase("Paused")
    world.run(20)
    for host in hosts:
        host.bad = set()
    world.paused = True
    world.run(3)
    assert world.plan.paused == ConditionMessage(RolloutReason.USER, "spec.paused: no batch starts")
    world.paused = False
    world.to_phase("Completed")
    assert len(world.on("B")) == 6


def test_resumed_set_stops_again_when_the_machine_fails_again() -> None:
    hosts = fleet(6)
    for host in hosts:
        host.bad = {"B"}
    world = World.of(*hosts)
    world.to_phase("Paused")
    world.paused = True
    world.run(2)
    world.paused = False
    world.run(50)
    assert len(world.assigned("B")) == 1 and world.rollout.stop is not None
    (touched,) = world.assigned("B")
    assert world.hosts[touched].acted == ["B"] * 3, "two attempts, and one more by hand"


def test_rollback_returns_all_newest_first_and_rejects_the_revision() -> None:
    hosts = fleet(8)
    strategy = quick(batches=[2, 4], failure_policy="Rollback", max_unavailable=4)
    world = World.of(*hosts, strategy=strategy)
    world.run(200, lambda world: world.rollout.batch.index == 2 and len(world.assigned("B")) > 4)
    last = [h for h in world.hosts.values() if h.wanted is not None and h.wanted.batch == 2]
    for host in last:
        host.bad = {"B"}
    world.to_phase("RollingBack")
    world.to_phase("Idle")
    assert world.on("A") == sorted(world.hosts) and world.assigned("A") == sorted(world.hosts)
    assert world.rollout.rejected == "B" and world.rollout.current == "A"
    assert (
        world.plan.degraded is not None and world.plan.degraded.reason == RolloutReason.ROLLED_BACK
    )


def test_invariant_09_a_rejected_revision_is_not_retried() -> None:
    hosts = fleet(4)
    for host in hosts:
        host.bad = {"B"}
    world = World.of(*hosts, strategy=quick(failure_policy="Rollback"))
    world.run(60)
    histories = [list(host.history) for host in hosts]
    world.run(200)
    assert [host.history for host in hosts] == histories
    world.target = "C"
    world.to_phase("Completed")
    assert len(world.on("C")) == 4
    world.target = "B"
    world.run(50)
    assert len(world.on("C")) == 4


def test_invariant_09_a_withdrawn_revision_ends_on_the_old_one() -> None:
    world = World.of(*fleet(9), strategy=quick(batches=[3], max_unavailable=9))
    world.run(100, lambda world: len(world.on("B")) >= 3)
    world.target = "A"
    world.to_phase("Completed")
    assert world.on("A") == sorted(world.hosts) and world.rollout.current == "A"


def test_continue_goes_on_in_spite_of_failures() -> None:
    hosts = fleet(6)
    hosts[0].bad = {"B"}
    world = World.of(*hosts, strategy=quick(failure_policy="Continue"))
    world.to_phase("Completed")
    assert world.on("A") == ["m00"]
    assert world.plan.degraded == ConditionMessage(RolloutReason.MACHINES_FAILED, "m00")


def test_failures_below_the_limit_are_left_behind() -> None:
    hosts = fleet(6)
    hosts[3].bad = {"B"}
    strategy = quick(batches=[6], auto_pause={"maxFailures": 2}, max_unavailable=6)
    world = World.of(*hosts, strategy=strategy)
    world.to_phase("Completed")
    assert world.on("A") == ["m03"]
    assert world.hosts["m03"].acted == ["B", "B"]


def test_f32_a_dead_machine_uses_up_the_budget_and_is_named() -> None:
    hosts = fleet(11)
    hosts[4].answers = False
    world = World.of(*hosts, strategy=quick(max_unavailable="5%"))
    world.run(20)
    assert world.assigned("B") == [] and world.plan.counts.unavailable == 1
    assert "m04" in world.plan.progressing[1].message


def test_f32_unresponsive_machines_may_be_left_out_and_are_counted() -> None:
    hosts = fleet(11)
    hosts[4].answers = False
    world = World.of(*hosts, strategy=quick(max_unavailable="5%", ignore_unresponsive=1))
    world.to_phase("Completed")
    assert len(world.on("B")) == 10 and world.plan.counts.excluded == 1
    hosts[4].answers = True
    world.run(50)
    assert len(world.on("B")) == 11, "it comes after the others once it is back"


def test_f33_the_slot_of_a_deleted_machine_is_free() -> None:
    world = World.of(*fleet(5), strategy=quick(batches=[1], max_unavailable=1))
    world.turn()
    (first,) = world.assigned("B")
    del world.hosts[first]
    world.to_phase("Completed")
    assert len(world.on("B")) == 4


def test_f36_the_first_batch_takes_a_machine_that_never_had_it() -> None:
    hosts = [*fleet(6), Host("new")]
    world = World.of(*hosts, strategy=quick(batches=[1, 10]))
    world.turn()
    assert world.assigned("B") == ["new"]


def test_canaries_go_first() -> None:
    hosts = fleet(12)
    hosts[7].canary = hosts[11].canary = True
    world = World.of(*hosts, strategy=quick(batches=[2, 10], max_unavailable=5))
    world.turn()
    assert world.assigned("B") == ["m07", "m11"]


def test_joiner_gets_the_current_revision_while_another_goes_out() -> None:
    world = World.of(*fleet(6), strategy=quick(batches=[1], max_unavailable=3))
    world.run(3)
    world.hosts["new"] = Host("new")
    world.turn()
    wanted = world.hosts["new"].wanted
    assert wanted is not None and (wanted.revision, wanted.batch) == ("A", 0)
    world.to_phase("Completed")
    assert world.hosts["new"].installed == "B"


def test_joiner_is_served_while_paused() -> None:
    world = World.of(*fleet(6), Host("new"), paused=True)
    world.run(6)
    assert world.hosts["new"].installed == "A" and world.assigned("B") == []


def test_frozen_and_meltdown_start_nothing_at_all() -> None:
    for state in ({"frozen": True}, {"meltdown": "Leases stopped together"}):
        world = World.of(*fleet(6), Host("new", newcomer=True), **state)
        world.run(20)
        assert world.plan.moves == () and world.hosts["new"].wanted is None
        assert world.rollout.phase == "Paused"


def test_first_rollout_goes_in_batches_but_for_newcomers() -> None:
    from machine.componentset.rollout import RolloutState

    hosts = [Host(f"m{i}") for i in range(5)] + [Host("new", newcomer=True)]
    world = World.of(*hosts, strategy=quick(batches=[1]), rollout=RolloutState())
    world.run(2)
    assert world.assigned("B") == sorted({"new", *world.assigned("B")})
    assert len(world.assigned("B")) == 2
    world.to_phase("Completed")
    assert len(world.on("B")) == 6


def test_f44_raising_the_partition_returns_machines_newest_first() -> None:
    strategy = quick(batches=[1], max_unavailable=1, partition=3)
    world = World.of(*fleet(8), strategy=strategy)
    world.run(300, lambda world: len(world.on("B")) == 5)
    world.run(20)
    assert world.plan.progressing[1].reason == RolloutReason.PARTITION_REACHED
    batches = {h.name: h.wanted.batch for h in world.hosts.values() if h.wanted is not None}
    world.strategy = quick(batches=[1], max_unavailable=1, partition=7)
    world.run(100)
    assert len(world.on("A")) == 7
    (left,) = world.on("B")
    assert batches[left] == 1, "the first that was changed stays"


@pytest.mark.parametrize(("share", "updated"), [("0%", 9), ("10%", 8), ("50%", 4), ("100%", 0)])
def test_partition_is_rounded_up(share: str, updated: int) -> None:
    world = World.of(*fleet(9), strategy=quick(partition=share, batches=[9], max_unavailable=9))
    world.run(60)
    assert len(world.on("B")) == updated


def test_f45_no_zone_is_above_its_own_cap() -> None:
    hosts = [Host.at(f"{z}{i}", "A", zone=z, domains=(z,)) for z in "abc" for i in range(10)]
    strategy = quick(
        batches=[30],
        max_unavailable=10,
        spread=[{"topologyKey": "zone", "maxUnavailable": 2}],
    )
    world = World.of(*hosts, strategy=strategy)
    worst = 0
    for _ in range(200):
        world.turn()
        for zone in "abc":
            out = [h for h in hosts if h.zone == zone and h.standing is not MemberState.SUCCEEDED]
            worst = max(worst, len(out))
    assert worst == 2 and len(world.on("B")) == 30


def test_zones_take_turns() -> None:
    world = World.of(*fleet(12), strategy=quick(batches=[3], max_unavailable=3))
    world.turn()
    assert {world.hosts[name].zone for name in world.assigned("B")} == {"a", "b", "c"}


def test_open_job_holds_its_machine_and_the_end_of_the_batch() -> None:
    world = World.of(*fleet(4), strategy=quick(batches=[4], max_unavailable=4))
    world.hosts["m02"].held = "rj-7"
    world.run(40)
    assert world.on("A") == ["m02"] and world.rollout.phase in ("Updating", "Staging")
    assert world.rollout.stop is None and world.hosts["m02"].wanted is not None
    world.run(500)
    assert world.rollout.stop is None, "a repair is no fault of the batch"
    world.hosts["m02"].held = ""
    world.to_phase("Completed")


def test_job_opened_on_a_changed_node_is_a_failure() -> None:
    world = World.of(*fleet(4), strategy=quick(batches=[2], max_unavailable=2, bake_time="10m"))
    world.to_phase("Baking")
    hit = world.assigned("B")[0]
    world.hosts[hit].held = "rj-9"
    world.run(2)
    assert world.rollout.batch.failed == (hit,)
    assert world.plan.paused is not None and "rj-9" in world.plan.paused.message


def test_bake_counts_from_the_last_success() -> None:
    world = World.of(*fleet(4), strategy=quick(batches=[2], max_unavailable=2, bake_time="10m"))
    world.to_phase("Baking")
    first = world.rollout.batch.bake_until
    sick = world.hosts[world.assigned("B")[0]]
    sick.ready = False
    world.run(6)
    assert world.rollout.batch.bake_until is None
    sick.ready = True
    world.run(2)
    again = world.rollout.batch.bake_until
    assert first is not None and again is not None
    assert again >= first + 5 * TICK


def test_invariant_07_bake_is_over_at_its_remembered_deadline() -> None:
    world = World.of(*fleet(4), strategy=quick(batches=[2], max_unavailable=2, bake_time="10m"))
    world.to_phase("Baking")
    until = world.rollout.batch.bake_until
    assert until is not None
    while world.rollout.batch.index == 1:
        assert world.now <= until + 2 * TICK
        world.turn()
    assert world.now >= until


def test_invariant_07_a_clock_set_back_does_not_prolong_the_bake_beyond_its_time() -> None:
    world = World.of(*fleet(4), strategy=quick(batches=[2], max_unavailable=2, bake_time="10m"))
    world.to_phase("Baking")
    world.now -= timedelta(days=30)
    began = world.now
    world.run(100, lambda world: world.rollout.batch.index == 2)
    assert world.now - began <= timedelta(minutes=10) + 3 * TICK


CHECKS = {
    "checks": [{"name": "ready", "type": "NodeCondition", "nodeCondition": {"type": "Ready"}}]
}


def test_inspection_comes_before_and_after_the_bake() -> None:
    strategy = quick(batches=[3], max_unavailable=3, inspection=CHECKS)
    world = World.of(*fleet(3), strategy=strategy)
    world.inspect = lambda: InspectionAnswer(InspectionResult.PASSED)
    world.to_phase("Completed")
    assert world.inspections == 2


def test_failed_inspection_stops_the_set() -> None:
    strategy = quick(batches=[1], inspection=CHECKS)
    world = World.of(*fleet(3), strategy=strategy)
    world.inspect = lambda: InspectionAnswer(InspectionResult.FAILED, "starts: 0.4")
    world.run(50)
    assert len(world.assigned("B")) == 1
    assert world.plan.paused == ConditionMessage(
        RolloutReason.INSPECTION_FAILED, "batch 1: starts: 0.4"
    )


def test_inspection_that_says_nothing_stops_at_its_limit() -> None:
    strategy = quick(batches=[1], inspection={**CHECKS, "inconclusiveLimit": 2})
    world = World.of(*fleet(3), strategy=strategy)
    world.inspect = lambda: InspectionAnswer(InspectionResult.INCONCLUSIVE, "no series")
    world.run(50)
    assert world.inspections == 2
    assert world.plan.paused is not None and world.plan.paused.reason == RolloutReason.INCONCLUSIVE


def test_inspection_under_way_is_asked_again() -> None:
    strategy = quick(batches=[3], max_unavailable=3, inspection=CHECKS)
    world = World.of(*fleet(3), strategy=strategy)
    answers = [
        InspectionResult.PENDING,
        InspectionResult.PENDING,
        InspectionResult.PASSED,
        InspectionResult.PASSED,
    ]
    world.inspect = lambda: InspectionAnswer(answers.pop(0))
    world.to_phase("Completed")
    assert answers == []


def test_f41_nothing_starts_outside_the_window_and_the_open_batch_waits() -> None:
    world = World.of(*fleet(6), strategy=quick(batches=[6], max_unavailable=2))
    world.run(2)
    world.window = lambda now: False
    world.turn()
    acting = [h for h in world.hosts.values() if h.standing is MemberState.ACTING]
    changed = sum(len(h.acted) for h in world.hosts.values())
    world.run(50)
    assert sum(len(h.acted) for h in world.hosts.values()) == changed >= len(acting)
    assert world.plan.progressing[1].reason == RolloutReason.WINDOW_CLOSED
    world.window = lambda now: True
    world.to_phase("Completed")


def test_progress_deadline_counts_active_time_only() -> None:
    strategy = quick(batches=[2], max_unavailable=2, progress_deadline="30m", machine_timeout="5h")
    world = World.of(*fleet(4), strategy=strategy)
    world.turn()
    stuck = world.hosts[world.assigned("B")[0]]
    stuck.answers = False
    world.run(20)
    world.paused = True
    world.run(400)
    world.paused = False
    world.run(10)
    assert world.rollout.stop is None
    world.run(60)
    assert world.rollout.stop is not None and stuck.name in world.rollout.stop.message
    assert world.plan.progressing[1].reason == RolloutReason.DEADLINE_EXCEEDED


def test_waiting_for_a_permit_costs_no_time() -> None:
    world = World.of(*fleet(4), strategy=quick(progress_deadline="10m", machine_timeout="5m"))
    for _ in range(100):
        plan = world.decide()
        for move in plan.moves:
            world.hosts[move.machine].assign(move, world.now)
        for host in world.hosts.values():
            host.live(False, world.now)
        world.now += TICK
    assert world.rollout.stop is None


def test_problem_of_the_new_revision_stops_nothing_of_the_old() -> None:
    skew = ConditionMessage(
        RolloutReason.VERSION_SKEW, "kubelet 1.31 is newer than the API server 1.30"
    )
    world = World.of(*fleet(4), Host("new"), problem=skew)
    world.run(10)
    assert world.assigned("B") == [] and world.hosts["new"].installed == "A"
    assert world.plan.degraded == skew


def test_next_batch_downloads_ahead_once_this_one_is_well() -> None:
    world = World.of(*fleet(9), strategy=quick(batches=[1, 3, 5], pre_stage=True))

    def ahead() -> set[str]:
        return {h.name for h in world.hosts.values() if h.wanted is not None and h.wanted.ahead}

    world.turn()
    assert not ahead()
    world.to_phase("Baking")
    early = ahead()
    assert len(early) == 3 and len(world.assigned("B")) == 1
    world.run(500, lambda world: world.rollout.batch.index == 2)
    world.run(1)
    batch = {h.name for h in world.hosts.values() if h.wanted is not None and h.wanted.batch == 2}
    assert batch >= early
    world.to_phase("Completed")
    assert len(world.on("B")) == 9


def test_newcomers_take_nothing_away_from_the_budget() -> None:
    hosts = [*fleet(4), *(Host(f"n{i}", newcomer=True, ready=False) for i in range(4))]
    world = World.of(*hosts, strategy=quick(max_unavailable=1))
    world.run(6)
    assert len(world.assigned("B")) >= 1


def test_another_revision_in_the_middle_takes_over() -> None:
    world = World.of(*fleet(9), strategy=quick(batches=[3], max_unavailable=3))
    world.run(5)
    world.target = "C"
    world.to_phase("Completed")
    assert len(world.on("C")) == 9 and world.rollout.current == "C"
