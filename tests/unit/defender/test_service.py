"""What Kube Defender answers, writes and remembers, on a record whose writes may fail."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from support.defender_world import POLICIES, Fate, World, a_policy, an_ask

from defender.client import DefenderUnreachable
from defender.server.store import UNCLEAR
from kubenode.api.v1alpha1 import Disruption, Reason
from kubenode.api.v1alpha1.defenderpolicy import Limit, LimitScope, PerNode, Rate
from kubenode.api.v1alpha1.permit import Operation, PermitState
from kubenode.runtime.fence import LeaseLost
from kubenode.runtime.kube import paths

TWO = Limit(scope=LimitScope.CLUSTER, max_concurrent=2)


async def test_a_grant_is_on_record_before_it_is_answered() -> None:
    world = World()
    verdict = await (await world.start()).ask(an_ask("n0"))
    (permit,) = world.api.open_permits()
    assert (verdict.allowed, verdict.permit) == (True, permit.metadata.name)
    assert permit.status.state is PermitState.GRANTED
    assert permit.status.expires_at == verdict.expires_at
    assert permit.status.scopes == ["cluster"]
    assert [g.class_ for g in permit.spec.grants] == [Disruption.NODE]


async def test_the_same_holder_gets_the_same_permit_also_when_it_asks_twice_at_once() -> None:
    world = World()
    defender = await world.start()
    first, second = await asyncio.gather(*(defender.ask(an_ask("n0")) for _ in range(2)))
    third = await defender.ask(an_ask("n0", Disruption.HOST))
    assert first.permit == second.permit == third.permit
    assert len(world.api.permits()) == 1


async def test_a_stronger_class_upgrades_the_permit_and_is_judged_by_its_own_limits() -> None:
    world = World(10, a_policy(Limit(scope=LimitScope.CLUSTER, max_concurrent=1)))
    defender = await world.start()
    mild = await defender.ask(an_ask("n0", Disruption.HOST))
    assert (await defender.ask(an_ask("n1"))).allowed
    refused = await defender.ask(an_ask("n0", Disruption.NODE))
    assert refused.reason is Reason.CONCURRENCY_LIMIT
    assert (await defender.check(mild.permit, 0)).class_ is Disruption.HOST
    await defender.release((await defender.ask(an_ask("n1"))).permit)
    strong = await defender.ask(an_ask("n0", Disruption.NODE))
    assert (strong.permit, strong.class_) == (mild.permit, Disruption.NODE)
    (permit,) = world.api.open_permits()
    assert [g.class_ for g in permit.spec.grants] == [Disruption.HOST, Disruption.NODE]


async def test_many_askers_at_once_never_get_more_than_the_limit() -> None:
    world = World(50)
    defender = await world.start()
    verdicts = await asyncio.gather(*(defender.ask(an_ask(f"n{i}")) for i in range(50)))
    assert sum(v.allowed for v in verdicts) == len(world.api.open_permits()) == 2
    assert {v.reason for v in verdicts} == {Reason.GRANTED, Reason.CONCURRENCY_LIMIT}
    assert all(v.look_again_at for v in verdicts if not v.allowed)


async def test_a_node_has_one_holder() -> None:
    world = World()
    defender = await world.start()
    await defender.ask(an_ask("n0", job="one"))
    assert (await defender.ask(an_ask("n0", job="two"))).reason is Reason.NODE_BUSY


async def test_a_dry_run_takes_nothing() -> None:
    world = World()
    defender = await world.start()
    for _ in range(3):
        verdict = await defender.ask(an_ask("n0", dry_run=True))
        assert (verdict.allowed, verdict.permit) == (True, "")
    assert world.api.permits() == []


async def test_until_the_record_is_loaded_nothing_is_granted_or_given_back() -> None:
    world = World()
    verdict = await world.defender.ask(an_ask("n0"))
    assert (verdict.allowed, verdict.reason) == (False, Reason.STORE_UNAVAILABLE)
    with pytest.raises(DefenderUnreachable):
        await world.defender.release("any")


async def test_without_the_lease_nothing_is_granted() -> None:
    class Lost:
        held = True

        def check(self) -> int:
            if not self.held:
                raise LeaseLost("gone")
            return 1

    world, fence = World(), Lost()
    defender = await world.restart(fence)
    permit = (await defender.ask(an_ask("n0"))).permit
    fence.held = False
    assert (await defender.ask(an_ask("n1"))).reason is Reason.STORE_UNAVAILABLE
    assert not (await defender.check(permit, 0)).allowed
    assert len(world.api.permits()) == 1


async def test_stale_data_refuses_and_says_so() -> None:
    world = World()
    defender = await world.start()
    permit = (await defender.ask(an_ask("n0"))).permit
    world.current(False)
    for verdict in (await defender.ask(an_ask("n1")), await defender.check(permit, 0)):
        assert (verdict.allowed, verdict.reason) == (False, Reason.STALE_DATA)


async def test_f46_an_api_error_is_over_when_it_is_over_and_giving_back_is_never_judged() -> None:
    world = World(10, a_policy(TWO))
    defender = await world.start()
    permit = (await defender.ask(an_ask("n0"))).permit
    world.api.down = True
    assert (await defender.ask(an_ask("n1"))).reason is Reason.STORE_UNAVAILABLE
    world.api.down = False
    assert (await defender.ask(an_ask("n1"))).allowed
    world.current(False)  # even while it refuses everything else
    await defender.release(permit)
    assert len(world.api.open_permits()) == 1


async def test_a_write_that_surely_failed_frees_the_slot_at_once() -> None:
    world = World(10, a_policy(Limit(scope=LimitScope.CLUSTER, max_concurrent=1)))
    defender = await world.start()
    world.api.fates[0] = Fate.REFUSED
    assert (await defender.ask(an_ask("n0"))).reason is Reason.STORE_UNAVAILABLE
    assert (await defender.ask(an_ask("n1"))).allowed


async def test_a_write_whose_answer_was_lost_is_read_back() -> None:
    world = World()
    defender = await world.start()
    world.api.fates[0] = Fate.UNHEARD
    assert (await defender.ask(an_ask("n0"))).allowed
    assert len(world.api.open_permits()) == 1


async def test_a_late_write_counts_all_the_time_and_its_holder_finds_it() -> None:
    world = World(10, a_policy(Limit(scope=LimitScope.CLUSTER, max_concurrent=1)))
    defender = await world.start()
    world.api.fates[0] = Fate.LATE
    assert not (await defender.ask(an_ask("n0"))).allowed
    await defender.keeper.round()
    assert (await defender.ask(an_ask("n1"))).reason is Reason.CONCURRENCY_LIMIT
    world.api.land()
    assert (await defender.ask(an_ask("n1"))).reason is Reason.CONCURRENCY_LIMIT
    assert (await defender.ask(an_ask("n0"))).allowed
    assert len(world.api.open_permits()) == 1


async def test_a_write_that_never_arrived_frees_its_slot_when_it_no_longer_can() -> None:
    world = World(10, a_policy(Limit(scope=LimitScope.CLUSTER, max_concurrent=1)))
    defender = await world.start()
    world.api.fates[0] = Fate.LOST
    await defender.ask(an_ask("n0"))
    await defender.keeper.round()
    assert not (await defender.ask(an_ask("n1"))).allowed
    world.step(seconds=UNCLEAR.total_seconds() + 1)
    await defender.keeper.round()
    assert (await defender.ask(an_ask("n1"))).allowed


@pytest.mark.exhaustive
async def test_a_restart_forgets_neither_permits_nor_rates() -> None:
    rate = Rate(count=2, per=timedelta(hours=1), burst=2)
    world = World(10, a_policy(Limit(scope=LimitScope.CLUSTER, max_concurrent=2, rate=rate)))
    defender = await world.start()
    permit = (await defender.ask(an_ask("n0"))).permit
    await defender.release((await defender.ask(an_ask("n1"))).permit)
    defender = await world.restart(behind=True)
    assert (await defender.check(permit, 60)).allowed
    refused = await defender.ask(an_ask("n2"))
    assert refused.reason is Reason.RATE_LIMIT
    world.step(minutes=30)
    assert (await defender.ask(an_ask("n2"))).allowed


async def test_a_permit_is_valid_as_long_as_it_is_renewed_and_not_shorter_than_the_step() -> None:
    world = World()
    defender = await world.start()
    permit = (await defender.ask(an_ask("n0"))).permit
    assert (await defender.check(permit, 60)).allowed
    world.step(minutes=14.5)
    assert not (await defender.check(permit, 60)).allowed
    assert (await defender.renew(permit)).allowed
    assert (await defender.check(permit, 60)).allowed
    assert not (await defender.check("other", 0)).allowed


async def test_what_is_released_is_gone_also_twice_and_is_asked_for_anew() -> None:
    world = World()
    defender = await world.start()
    permit = (await defender.ask(an_ask("n0"))).permit
    for _ in range(2):
        await defender.release(permit)
    await defender.release("never-was")
    assert not (await defender.check(permit, 0)).allowed
    assert not (await defender.renew(permit)).allowed
    again = await defender.ask(an_ask("n0"))
    assert again.allowed
    assert again.permit != permit


async def test_a_release_that_failed_still_counts_and_is_finished_later() -> None:
    world = World(10, a_policy(Limit(scope=LimitScope.CLUSTER, max_concurrent=1)))
    defender = await world.start()
    permit = (await defender.ask(an_ask("n0"))).permit
    world.api.fates[world.api.writes] = Fate.LOST
    with pytest.raises(DefenderUnreachable):
        await defender.release(permit)
    assert not (await defender.check(permit, 0)).allowed
    assert not (await defender.ask(an_ask("n1"))).allowed
    await defender.keeper.round()
    assert (await defender.ask(an_ask("n1"))).allowed


async def test_a_revoked_permit_is_worth_nothing_and_still_counts_until_its_holder_stops() -> None:
    world = World(10, a_policy(Limit(scope=LimitScope.CLUSTER, max_concurrent=1)))
    defender = await world.start()
    world.job("job-n0")
    permit = (await defender.ask(an_ask("n0"))).permit
    status = {"status": {"state": "Revoked"}}
    await world.api.patch(f"/apis/kubenode.io/v1alpha1/permits/{permit}/status", status)
    assert not (await defender.check(permit, 0)).allowed
    assert not (await defender.renew(permit)).allowed
    assert (await defender.ask(an_ask("n1"))).reason is Reason.CONCURRENCY_LIMIT
    again = await defender.ask(an_ask("n0"))
    assert again.allowed
    assert again.permit != permit


@pytest.mark.parametrize("ghost", ["job gone", "job over", "another job", "node gone"])
async def test_f12_a_ghosts_slot_is_free_within_one_round(ghost: str) -> None:
    world = World(10, a_policy(Limit(scope=LimitScope.CLUSTER, max_concurrent=1)))
    defender = await world.start()
    world.job("job-n0")
    await defender.ask(an_ask("n0"))
    await defender.keeper.round()
    assert not (await defender.ask(an_ask("n1"))).allowed
    match ghost:
        case "job gone":
            world.api.remove("/apis/kubenode.io/v1alpha1/remedyoperationjobs", "job-n0")
        case "job over":
            world.job("job-n0", "Succeeded")
        case "another job":
            world.job("job-n0", uid="another")
        case _:
            world.api.remove("/api/v1/nodes", "n0")
    await defender.keeper.round()
    assert (await defender.ask(an_ask("n1"))).allowed
    assert len(world.api.open_permits()) == 1


async def test_f12_a_living_holder_keeps_its_slot_however_late_it_is() -> None:
    world = World(10, a_policy(Limit(scope=LimitScope.CLUSTER, max_concurrent=1)))
    defender = await world.start()
    world.job("job-n0")
    permit = (await defender.ask(an_ask("n0"))).permit
    world.step(hours=1)
    await defender.keeper.round()
    (found,) = world.api.open_permits()
    assert found.status.state is PermitState.OVERDUE
    assert not (await defender.ask(an_ask("n1"))).allowed
    assert not (await defender.check(permit, 0)).allowed
    assert (await defender.renew(permit)).allowed
    assert world.api.open_permits()[0].status.state is PermitState.GRANTED


async def test_f12_who_cannot_be_looked_at_is_taken_to_live() -> None:
    world = World(10, a_policy(Limit(scope=LimitScope.CLUSTER, max_concurrent=1)))
    defender = await world.start()
    await defender.ask(an_ask("n0"))
    world.step(hours=1)
    world.api.down = True
    await defender.keeper.round()
    world.api.down = False
    assert len(world.api.open_permits()) == 1


async def test_f12_a_holder_of_a_kind_that_we_may_not_read_is_taken_to_live() -> None:
    world = World(10, a_policy(Limit(scope=LimitScope.CLUSTER, max_concurrent=1)))
    defender = await world.start()
    await defender.ask(an_ask("n0", kind="Machine.cluster.x-k8s.io"))
    world.step(hours=8)
    await defender.keeper.round()
    (found,) = world.api.open_permits()
    assert found.status.state is PermitState.OVERDUE
    assert not (await defender.ask(an_ask("n1"))).allowed


MACHINE_KINDS = {
    "Machine": "machines",
    "MachineSet": "machinesets",
    "MachineComponentSet": "machinecomponentsets",
}


@pytest.mark.parametrize("kind", MACHINE_KINDS)
async def test_f33_the_slot_of_a_machine_or_set_that_is_gone_is_freed(kind: str) -> None:
    world = World(10, a_policy(Limit(scope=LimitScope.CLUSTER, max_concurrent=1)))
    defender = await world.start()
    ask = an_ask("n0", kind=kind)
    holder = {"metadata": {"name": ask.holder.name, "uid": ask.holder.uid}}
    world.api.put(paths.custom(MACHINE_KINDS[kind]), holder)
    await defender.ask(ask)
    world.step(hours=1)
    await defender.keeper.round()
    assert world.api.open_permits()[0].status.state is PermitState.OVERDUE
    world.api.remove(paths.custom(MACHINE_KINDS[kind]), ask.holder.name)
    world.step(minutes=2)
    await defender.keeper.round()
    assert world.api.open_permits() == []
    assert (await defender.ask(an_ask("n1"))).allowed


@pytest.mark.parametrize("kind", MACHINE_KINDS)
async def test_f33_another_set_of_the_same_name_is_not_the_holder(kind: str) -> None:
    world = World(10, a_policy(Limit(scope=LimitScope.CLUSTER, max_concurrent=1)))
    defender = await world.start()
    ask = an_ask("n0", kind=kind)
    await defender.ask(ask)
    again = {"metadata": {"name": ask.holder.name, "uid": "made-anew"}}
    world.api.put(paths.custom(MACHINE_KINDS[kind]), again)
    world.step(minutes=2)
    await defender.keeper.round()
    assert world.api.open_permits() == []


@pytest.mark.parametrize("kind", MACHINE_KINDS)
async def test_f12_an_absent_definition_frees_nothing(kind: str) -> None:
    """Not found says nothing of the holder where nobody serves its kind."""
    world = World(10, a_policy(Limit(scope=LimitScope.CLUSTER, max_concurrent=1)))
    world.api.kinds -= set(MACHINE_KINDS)
    defender = await world.start()
    await defender.ask(an_ask("n0", kind=kind))
    world.step(hours=8)
    await defender.keeper.round()
    (found,) = world.api.open_permits()
    assert found.status.state is PermitState.OVERDUE
    assert not (await defender.ask(an_ask("n1"))).allowed


async def test_released_permits_are_deleted_when_no_limit_looks_back_to_them() -> None:
    world = World(10, a_policy(TWO, per_node=PerNode(within=timedelta(hours=2))))
    defender = await world.start()
    await defender.release((await defender.ask(an_ask("n0"))).permit)
    world.step(hours=1)
    await defender.keeper.round()
    assert len(world.api.permits()) == 1
    world.step(hours=24)
    await defender.keeper.round()
    assert world.api.permits() == []
    assert len(defender.ledger) == 0


FLEET = Limit(scope=LimitScope.FLEET, group="prod", max_concurrent=1)


@pytest.mark.parametrize("policy", [a_policy(TWO, FLEET)], ids=["fleet"])
async def test_a_limit_that_is_not_enforced_refuses_instead_of_being_left_out(policy: Any) -> None:
    world = World(10, policy)
    defender = await world.start()
    assert (await defender.ask(an_ask("n0"))).reason is Reason.POLICY_INVALID
    await defender.reporter.report()
    condition = world.api.objects[POLICIES]["default"]["status"]["conditions"][0]
    assert (condition["type"], condition["reason"]) == ("NotEnforced", "Refusing")


async def test_a_policy_that_cannot_be_read_refuses_what_it_may_cover() -> None:
    world = World()
    world.api.put(POLICIES, {"metadata": {"name": "newer"}, "spec": {"limits": "many"}})
    defender = await world.start()
    assert (await defender.ask(an_ask("n0"))).reason is Reason.POLICY_INVALID


async def test_the_default_policy_is_made_where_there_is_none() -> None:
    world = World()
    world.api.remove(POLICIES, "default")
    defender = await world.start()
    assert "default" in world.api.objects[POLICIES]
    assert (await defender.ask(an_ask("n0"))).allowed


async def test_the_policys_status_tells_the_figures_and_that_all_is_enforced() -> None:
    world = World()
    defender = await world.start()
    world.node("n9", "False")
    await defender.ask(an_ask("n0"))
    await defender.reporter.report()
    status = world.api.objects[POLICIES]["default"]["status"]
    assert (status["healthy"], status["unhealthy"], status["permits"]) == (8, 2, 1)
    assert status["decisions"]["granted"] == 1
    assert status["conditions"][0]["status"] == "False"
    writes = world.api.writes
    world.step(minutes=1)
    await defender.reporter.report()
    await defender.reporter.report()
    assert world.api.writes == writes


async def test_an_inevitable_loss_is_not_held_up_by_limits_but_by_a_person() -> None:
    world = World(10, a_policy(Limit(scope=LimitScope.CLUSTER, max_concurrent=1)))
    defender = await world.start()
    await defender.ask(an_ask("n0"))
    loss: dict[str, Any] = {"operation": Operation.EVACUATE, "inevitable": True}
    assert (await defender.ask(an_ask("n1", **loss))).allowed
    pause = {"pauses": [{"scope": "Cluster", "by": "ada"}]}
    await world.api.patch(f"{POLICIES}/default", {"spec": pause})
    assert (await defender.ask(an_ask("n2", **loss))).reason is Reason.PAUSED
