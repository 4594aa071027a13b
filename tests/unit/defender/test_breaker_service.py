"""What Kube Defender writes and tells of its breakers, takes up again, and asks when in doubt."""

from datetime import timedelta
from typing import Any

import pytest
from support.defender_world import JOBS, NODES, POLICIES, World, a_policy, an_ask

from defender.replicas.lifesigns import NAMESPACE
from defender.server.thaw import ANNOTATION, NotFrozen, write_thaw
from kubenode.api.v1alpha1 import Reason
from kubenode.api.v1alpha1.defenderpolicy import Limit, LimitScope
from kubenode.runtime.kube import paths

LEASES = paths.leases(NAMESPACE)
PROBES = paths.custom("hostprobes")


async def a_storm(failed: int = 4, ready: str = "False") -> World:
    world = World(10, a_policy(Limit(scope=LimitScope.CLUSTER, max_concurrent=5)))
    await started(world)
    world.step(minutes=1)
    for number in range(failed):
        world.node(f"n{number}", ready)
    return world


async def started(world: World) -> None:
    await world.start()
    await world.defender._tick()
    await world.defender._tick()


def status(world: World) -> dict[str, Any]:
    found: dict[str, Any] = world.api.objects[POLICIES]["default"]["status"]
    return found


def events(world: World) -> list[tuple[str, str]]:
    queue = world.defender.recorder._pending
    found = [queue.get_nowait() for _ in range(queue.qsize())]
    return [(event["reason"], event["message"]) for event in found]


async def test_an_opening_is_written_and_told_at_once_and_figures_wait() -> None:
    world = await a_storm()
    await world.defender._tick()
    (told,) = status(world)["breaker"]
    assert (told["scope"], told["state"]) == ("cluster", "Open")
    assert told["why"].startswith("4 of 10 nodes are unhealthy")
    assert [reason for reason, _ in events(world)] == ["BreakerOpen"]
    writes = world.api.writes
    world.step(seconds=1)
    await world.defender._tick()
    world.step(minutes=5)
    await world.defender._tick()
    await world.defender._tick()
    assert world.api.writes <= writes + 1 and not events(world)


async def test_a_write_that_failed_is_tried_again_without_waiting_for_the_figures() -> None:
    world = await a_storm()
    world.api.down = True
    await world.defender._tick()
    world.api.down = False
    world.step(seconds=1)
    await world.defender._tick()
    assert status(world)["breaker"][0]["state"] == "Open"


async def test_f46_a_restart_in_the_middle_of_a_storm_stays_open_and_recovers_by_itself() -> None:
    world = await a_storm()
    await world.defender._tick()
    since = status(world)["breaker"][0]["since"]
    for number in range(4):
        world.node(f"n{number}", "True")
    await world.restart()
    await world.defender._tick()
    await world.defender._tick()
    assert (await world.defender.ask(an_ask("n1"))).reason is Reason.BREAKER_OPEN
    assert status(world)["breaker"][0]["since"] == since
    assert not events(world)  # people were told
    world.step(minutes=10)
    await world.defender._tick()
    assert (await world.defender.ask(an_ask("n1"))).allowed
    assert status(world)["breaker"][0]["state"] == "HalfOpen"
    states = [each["state"] for each in status(world)["breakerHistory"]]
    assert states == ["Open", "HalfOpen"]
    assert [reason for reason, _ in events(world)] == ["BreakerHalfOpen"]
    for _ in range(4):  # 2, 4, 8, 16 at once: more than the Host acts that nothing limits
        world.step(minutes=5)
        await world.defender._tick()
    assert status(world)["breaker"] == []
    assert [each["state"] for each in status(world)["breakerHistory"]][-1] == "Closed"


async def test_jobs_count_as_the_api_server_has_them() -> None:
    world = World(10, a_policy(Limit(scope=LimitScope.CLUSTER, max_concurrent=5)))
    await started(world)
    for number in range(3):
        name = f"job-{number}"
        spec = {
            "nodeName": f"n{number}",
            "mode": "Enforce",
            "faultClass": "kernel_deadlock",
            "remedier": {"name": "a-rule", "uid": "u", "generation": 1},
            "ladder": [{"name": "reboot", "steps": [{"reboot": {}}]}],
        }
        meta = {"name": name, "uid": name, "creationTimestamp": world.clock.now().isoformat()}
        world.api.put(JOBS, {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}})
    assert (await world.defender.ask(an_ask("n9"))).reason is Reason.BREAKER_OPEN


# -- the control path -----------------------------------------------------------------------------


def lease(world: World, agent: str, ago: timedelta = timedelta()) -> None:
    at = (world.clock.now() - ago).isoformat()
    world.api.put(LEASES, {"metadata": {"name": agent}, "spec": {"renewTime": at}})


async def silence() -> World:
    world = await a_storm(8, "Unknown")
    world.api.readable |= {LEASES, PROBES}
    return world


async def test_leases_of_agents_are_listed_in_pages_and_a_broken_one_is_left_out() -> None:
    world = await silence()
    look = world.defender.life_signs.check_hosts
    world.api.put(LEASES, {"metadata": {"name": "n0"}, "spec": {"renewTime": "yesterday"}})
    for moved in range(2):
        for agent in range(1, 700):
            lease(world, f"n{agent}", ago=timedelta(hours=2, seconds=moved))
        await look()
        world.step(seconds=15)
    assert world.api.lists[LEASES] == [500, 500] * 2
    assert world.defender.control.breakers.control_path.frozen is not None


async def test_f15_agents_leases_that_go_on_freeze_and_heartbeats_thaw() -> None:
    world = await silence()
    look = world.defender.life_signs.check_hosts
    for agent in range(8):
        lease(world, f"n{agent}", ago=timedelta(hours=2))  # hosts' clocks may be wrong
    await look()
    assert world.defender.control.breakers.control_path.frozen is None
    world.step(seconds=15)
    for agent in range(4):
        lease(world, f"n{agent}", ago=timedelta(hours=2))
    await look()
    await world.defender._tick()
    assert [each["scope"] for each in status(world)["breaker"]] == ["control-path", "cluster"]
    no = await world.defender.ask(an_ask("n9"))
    assert no.reason is Reason.BREAKER_OPEN and "control path" in no.message
    world.step(hours=2)
    await world.defender._tick()
    assert "control path" in (await world.defender.ask(an_ask("n9"))).message
    for number in range(8):
        world.node(f"n{number}", "True")
    await world.defender._tick()
    assert [each["scope"] for each in status(world)["breaker"]] == ["cluster"]


async def test_leases_that_stand_still_are_hosts_that_are_gone() -> None:
    world = await silence()
    for agent in range(8):
        lease(world, f"n{agent}")
    for _ in range(3):
        world.step(seconds=15)
        await world.defender.life_signs.check_hosts()
    assert world.defender.control.breakers.control_path.frozen is None


async def test_answers_of_probes_are_signs_of_life_too() -> None:
    world = await silence()
    world.step(minutes=1)
    for number in range(4):
        at = world.clock.now().isoformat()
        world.api.put(
            PROBES,
            {
                "metadata": {"name": f"probe-{number}"},
                "spec": {"nodeName": f"n{number}"},
                "status": {"answeredAt": at, "answer": {"cloud_state": "running"}},
            },
        )
    await world.defender.life_signs.check_hosts()
    assert world.defender.control.breakers.control_path.frozen is not None


async def test_nothing_is_listed_without_suspicion_and_trouble_is_no_sign() -> None:
    world = await a_storm(3)
    world.api.down = True
    await world.defender.life_signs.check_hosts()
    world = await silence()
    world.api.down = True
    await world.defender.life_signs.check_hosts()
    assert world.defender.control.breakers.control_path.frozen is None
    assert NODES in world.api.objects


async def frozen_world() -> World:
    """Half of the agents' Leases go on while all heartbeats have stopped."""
    world = await silence()
    for number in (8, 9):
        world.node(f"n{number}", "Unknown")
    for _ in range(2):
        for agent in range(8):
            lease(world, f"n{agent}")
        await world.defender.life_signs.check_hosts()
        world.step(seconds=15)
    await world.defender._tick()
    assert status(world)["breaker"][0]["scope"] == "control-path"
    return world


async def test_a_thaw_is_told_written_down_and_holds_after_a_restart() -> None:
    world = await frozen_world()
    events(world)
    await write_thaw(world.api, "ada", "the rack was sold")
    await world.defender._tick()
    assert "control-path" not in {each["scope"] for each in status(world)["breaker"]}
    told = [message for reason, message in events(world) if reason == "ControlPathThawed"]
    assert told == ["ada ended the freeze of the control path: the rack was sold"]
    defender = await world.restart()
    for _ in range(2):
        for agent in range(8):
            lease(world, f"n{agent}")
        await defender.life_signs.check_hosts()
        world.step(seconds=15)
    assert defender.control.breakers.control_path.frozen is None
    with pytest.raises(NotFrozen):
        await write_thaw(world.api, "ada", "again")


async def test_a_thaw_that_cannot_be_read_changes_nothing() -> None:
    world = await frozen_world()
    policy = world.api.objects[POLICIES]["default"]
    policy["metadata"]["annotations"] = {ANNOTATION: '{"frozenSince": 3}'}
    world.api.put(POLICIES, policy)
    assert world.defender.control.breakers.control_path.frozen is not None
