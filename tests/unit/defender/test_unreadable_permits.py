"""A Permit that this version cannot read stops what it is about, and nothing else."""

import json
from datetime import timedelta
from typing import Any

import pytest
from support.clock import T0
from support.defender_objects import instant, permit_object
from support.defender_world import PERMITS, World, a_policy, an_ask

from defender.decision.ledger import LedgerPermit, load_permit
from defender.decision.permit_reader import UNREADABLE, UnreadablePermit, read_permit
from defender.replicas.redis.entry import read, written
from kubenode.api.v1alpha1 import Disruption, Operation, Reason
from kubenode.api.v1alpha1.defenderpolicy import Limit, LimitScope, Rate
from kubenode.api.v1alpha1.permit import PermitState

ONE = Limit(scope=LimitScope.CLUSTER, max_concurrent=1)
TWO = Limit(scope=LimitScope.CLUSTER, max_concurrent=2)
NEVER = timedelta(hours=100)


def of_later_version(name: str, node: str = "n9", **change: Any) -> dict[str, Any]:
    """An open permit, or a released one, of an operation that this version does not know."""
    made = permit_object(name, node, T0, **change)
    made["metadata"] |= {"uid": f"uid-{name}", "creationTimestamp": instant(T0)}
    made["spec"]["operation"] = "Rebalance"
    return made


def unreadable(obj: dict[str, Any]) -> LedgerPermit:
    permit = read_permit(json.dumps(obj).encode())
    assert isinstance(permit, UnreadablePermit)
    assert permit.why
    return load_permit(permit, 900)


async def test_defender_starts_when_a_released_permit_cannot_be_read() -> None:
    world = World(10)
    world.api.put(PERMITS, of_later_version("old", released=T0))
    defender = await world.start()
    assert defender.ready() == ""
    assert (await defender.ask(an_ask("n0"))).allowed
    assert (await defender.ask(an_ask("n9"))).allowed


async def test_an_open_permit_that_cannot_be_read_blocks_its_node_and_counts_everywhere() -> None:
    world = World(10, a_policy(TWO))
    world.api.put(PERMITS, of_later_version("odd"))
    defender = await world.start()
    busy = await defender.ask(an_ask("n9"))
    assert busy.reason is Reason.NODE_BUSY
    assert "odd" in busy.message
    assert (await defender.ask(an_ask("n0"))).allowed
    assert (await defender.ask(an_ask("n1"))).reason is Reason.CONCURRENCY_LIMIT


@pytest.mark.parametrize("class_", ["Host", "Pods", "Node"])
async def test_an_unreadable_permit_counts_in_limits_of_other_classes_and_operations(
    class_: str,
) -> None:
    only = Limit(scope=LimitScope.CLUSTER, max_concurrent=1, classes=[Disruption(class_)])
    world = World(10, a_policy(only, operations=[Operation.REPAIR]))
    world.api.put(PERMITS, of_later_version("odd", operation="Delete", class_="Host"))
    defender = await world.start()
    verdict = await defender.ask(an_ask("n0", Disruption(class_)))
    assert verdict.reason is Reason.CONCURRENCY_LIMIT


async def test_a_released_permit_that_cannot_be_read_counts_in_rates_by_its_stamps() -> None:
    rate = Limit(scope=LimitScope.CLUSTER, rate=Rate(count=1, per=timedelta(hours=1)))
    world = World(10, a_policy(rate))
    world.api.put(PERMITS, of_later_version("old", released=T0))
    defender = await world.start()
    assert (await defender.ask(an_ask("n0"))).reason is Reason.RATE_LIMIT
    world.step(hours=1)
    assert (await defender.ask(an_ask("n0"))).allowed


async def test_a_permit_that_becomes_unreadable_while_running_stops_its_node_alone() -> None:
    world = World(10, a_policy(TWO))
    defender = await world.start()
    permit = (await defender.ask(an_ask("n0"))).permit
    changed = world.api.objects[PERMITS][permit]
    changed["status"]["state"] = "Suspended"
    world.api.put(PERMITS, changed)
    assert defender.ready() == ""
    assert not (await defender.check(permit, 0)).allowed
    assert not (await defender.renew(permit)).allowed
    assert (await defender.ask(an_ask("n0"))).reason is Reason.NODE_BUSY
    assert (await defender.ask(an_ask("n1"))).allowed
    assert (await defender.ask(an_ask("n2"))).reason is Reason.CONCURRENCY_LIMIT


async def test_a_permit_that_can_be_read_again_is_worth_what_it_says() -> None:
    world = World(10)
    world.api.put(PERMITS, of_later_version("odd", holder="job-n9"))
    defender = await world.start()
    repaired = world.api.objects[PERMITS]["odd"]
    repaired["spec"] |= {"operation": "Repair"}
    world.api.put(PERMITS, repaired)
    held = defender.ledger.get("odd")
    assert held is not None
    assert not held.unreadable
    world.api.remove(PERMITS, "odd")
    assert (await defender.ask(an_ask("n9"))).allowed


async def test_a_holder_may_give_back_a_permit_that_cannot_be_read() -> None:
    world = World(10, a_policy(ONE))
    world.api.put(PERMITS, of_later_version("odd"))
    defender = await world.start()
    await defender.release("odd")
    assert world.api.objects[PERMITS]["odd"]["status"]["state"] == "Released"
    assert (await defender.ask(an_ask("n0"))).allowed


async def test_housekeeping_frees_an_unreadable_permit_when_its_holder_is_gone() -> None:
    world = World(10, a_policy(ONE))
    world.api.put(PERMITS, of_later_version("odd"))
    defender = await world.start()
    await defender.keeper.round()
    held = defender.ledger.get("odd")
    assert held is not None
    assert not held.open


async def test_housekeeping_never_frees_a_permit_whose_node_and_holder_cannot_be_read() -> None:
    world = World(10, a_policy(ONE))
    odd = of_later_version("odd")
    odd["spec"] = {"nodeName": 7, "holder": None}
    world.api.put(PERMITS, odd)
    defender = await world.start()
    world.step(hours=5)
    await defender.keeper.round()
    assert (await defender.ask(an_ask("n0"))).reason is Reason.CONCURRENCY_LIMIT
    assert world.api.objects[PERMITS]["odd"]["status"]["state"] == "Granted"


@pytest.mark.parametrize("at", ["9999-12-31T23:59:59Z", "2026-02-30T00:00:00Z", 3, None])
def test_a_time_that_cannot_be_reckoned_with_is_not_taken_over(at: Any) -> None:
    obj = permit_object("odd", "n1", T0)
    obj["metadata"] |= {"uid": "u", "creationTimestamp": instant(T0)}
    obj["spec"]["grants"] = [{"class": "Node", "at": at}]
    obj["status"]["grantedAt"] = at
    assert unreadable(obj).grants == [(Disruption.NODE, T0)]


@pytest.mark.parametrize("part", ["metadata", "spec", "status"])
@pytest.mark.parametrize("value", [None, [], 3, "text", {"grants": 3, "holder": {"kind": []}}])
def test_whatever_a_permit_holds_it_is_open_unless_it_says_released(part: str, value: Any) -> None:
    obj = of_later_version("odd")
    if part == "metadata":
        obj["metadata"] |= {"labels": value, "ownerReferences": value}
    else:
        obj[part] = value
    assert unreadable(obj).open
    obj["status"] = {"state": "Released"}
    assert not unreadable(obj).open


def test_a_permit_without_a_readable_holder_has_one_that_nobody_is() -> None:
    obj = of_later_version("odd")
    obj["spec"]["holder"] = {"kind": "x" * 64, "name": "y", "uid": "z"}
    assert unreadable(obj).holder.kind == UNREADABLE


def test_an_unreadable_permit_passes_between_replicas_as_one() -> None:
    held = unreadable(of_later_version("odd"))
    told = read("odd", 3, written(held))
    assert told.unreadable == held.unreadable
    assert told.counts_as(frozenset({Disruption.HOST}))


def test_an_entry_of_a_later_replica_counts_as_everything() -> None:
    known = read_permit(json.dumps(permit_object("p", "n1", T0)).encode())
    text = written(load_permit(known, 900)).replace('"Repair"', '"Rebalance"')
    told = read("p", 1, text)
    assert told.unreadable
    assert told.state is PermitState.GRANTED


async def test_the_metrics_and_an_event_name_permits_that_cannot_be_read() -> None:
    world = World(10)
    world.api.put(PERMITS, of_later_version("odd"))
    world.api.put(PERMITS, of_later_version("old", released=T0))
    defender = await world.start()
    registry = world.registry
    for state in ("open", "released"):
        labels = {"state": state}
        assert registry.get_sample_value("kubenode_defender_unreadable_permits", labels) == 1
    for _ in range(2):
        await defender.reporter.report()
    queue = defender.recorder._pending
    events = [queue.get_nowait() for _ in range(queue.qsize())]
    told = [e["involvedObject"]["name"] for e in events if e["reason"] == "PermitUnreadable"]
    assert sorted(told) == ["odd", "old"]
