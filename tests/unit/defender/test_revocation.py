"""`pause --now` and an opening breaker take permits back, from those who may still stop."""

from datetime import timedelta
from typing import Any

import pytest
from support.defender_world import JOBS, POLICIES, Fate, World, a_policy, an_ask
from support.remedy_builders import an_object

from defender.server.revocation import Revoking
from kubenode.api.v1alpha1 import Reason
from kubenode.api.v1alpha1.defenderpolicy import Limit, LimitScope, Pause
from kubenode.api.v1alpha1.permit import PermitState

ZONE = "topology.kubernetes.io/zone"
LIMIT = Limit(scope=LimitScope.CLUSTER, max_concurrent=5)


def paused(**pause: Any) -> Any:
    return a_policy(LIMIT, pauses=[Pause(**({"now": True} | pause))])


async def a_world(nodes: int = 5) -> tuple[World, Revoking]:
    world = World(nodes, a_policy(LIMIT))
    await world.start()
    return world, world.defender.revoking


def the_job(world: World, node: str, *, restarted: bool = False, drained: bool = True) -> None:
    """A job of the rung cordon, migrate, restart; how far it came."""
    records = [record(0, "cordon"), record(1, "migrate", "Done" if drained else "Running")]
    if restarted:
        records.append(record(2, "agent", "Running"))
    status = {"phase": "Running", "steps": records}
    obj = an_object(name=f"job-{node}", nodeName=node).to_dict() | {"status": status}
    obj["metadata"]["uid"] = f"uid-job-{node}"
    world.api.put(JOBS, obj)


def record(index: int, name: str, state: str = "Done") -> dict[str, Any]:
    return {"rung": 0, "index": index, "name": name, "state": state, "attempts": 1}


def states(world: World) -> dict[str, PermitState | None]:
    return {p.spec.node_name: p.status.state for p in world.api.permits()}


async def test_a_pause_with_now_takes_back_from_those_who_did_nothing_irreversible() -> None:
    world, revoking = await a_world()
    drained = await world.defender.ask(an_ask("n0"))
    acting = await world.defender.ask(an_ask("n1"))
    the_job(world, "n0")
    the_job(world, "n1", restarted=True)
    world.api.put(POLICIES, paused(by="ann", why="network change").to_dict())
    await revoking.round()
    assert states(world) == {"n0": PermitState.REVOKED, "n1": PermitState.GRANTED}
    assert not (await world.defender.check(drained.permit, 0)).allowed
    assert not (await world.defender.renew(drained.permit)).allowed
    assert (await world.defender.check(acting.permit, 0)).allowed
    (revoked,) = [p for p in world.api.permits() if p.status.conditions]
    assert [(c.type, c.reason) for c in revoked.status.conditions] == [("Revoked", "Paused")]


async def test_a_revoked_permit_counts_until_it_is_given_back() -> None:
    world, revoking = await a_world()
    await world.defender.ask(an_ask("n0"))
    the_job(world, "n0")
    world.api.put(POLICIES, paused().to_dict())
    await revoking.round()
    assert len(world.defender.ledger.open()) == 1
    again = await world.defender.ask(an_ask("n0"))
    assert again.reason is Reason.PAUSED
    assert states(world) == {"n0": PermitState.RELEASED}
    world.api.put(POLICIES, a_policy(LIMIT).to_dict())
    fresh = await world.defender.ask(an_ask("n0"))
    assert fresh.allowed
    assert (await world.defender.check(fresh.permit, 0)).allowed


async def test_a_plain_pause_takes_nothing_back() -> None:
    world, revoking = await a_world()
    await world.defender.ask(an_ask("n0"))
    the_job(world, "n0")
    world.api.put(POLICIES, paused(now=False).to_dict())
    await revoking.round()
    assert states(world) == {"n0": PermitState.GRANTED}


@pytest.mark.parametrize(
    ("pause", "hit"),
    [
        ({"scope": "Node", "value": "n0"}, {"n0"}),
        ({"scope": "Label", "label": ZONE, "value": "b"}, {"n1"}),
        ({"scope": "Label", "label": ZONE, "value": "c"}, set[str]()),
    ],
)
async def test_only_what_the_pause_is_about(pause: dict[str, Any], hit: set[str]) -> None:
    world, revoking = await a_world()
    world.node("n1", labels={ZONE: "b"})
    for node in ("n0", "n1", "n2"):
        await world.defender.ask(an_ask(node))
        the_job(world, node)
    world.api.put(POLICIES, paused(**pause).to_dict())
    await revoking.round()
    assert {n for n, state in states(world).items() if state is PermitState.REVOKED} == hit


async def test_a_pause_that_is_over_takes_nothing_back() -> None:
    world, revoking = await a_world()
    await world.defender.ask(an_ask("n0"))
    the_job(world, "n0")
    world.api.put(POLICIES, paused(until=world.clock.now() + timedelta(minutes=1)).to_dict())
    world.step(minutes=2)
    await revoking.round()
    assert states(world) == {"n0": PermitState.GRANTED}


async def test_holders_that_are_no_jobs_keep_theirs() -> None:
    """Nobody knows how far they are."""
    world, revoking = await a_world()
    await world.defender.ask(an_ask("n0", kind="Machine"))
    world.api.put(POLICIES, paused().to_dict())
    await revoking.round()
    assert states(world) == {"n0": PermitState.GRANTED}


async def test_a_breaker_that_opens_takes_back_what_was_granted_before() -> None:
    world = World(10, a_policy(Limit(scope=LimitScope.CLUSTER, max_concurrent=8)))
    await world.start()
    world.defender.control.breakers.loaded = True
    await world.defender.ask(an_ask("n0"))
    the_job(world, "n0")
    world.step(minutes=1)
    for i in range(1, 7):
        world.node(f"n{i}", ready="False")
    world.defender.control.advance(world.clock.now())
    assert world.defender.control.breakers.opened()
    await world.defender.revoking.round()
    assert states(world) == {"n0": PermitState.REVOKED}
    assert (await world.defender.ask(an_ask("n0"))).reason is Reason.BREAKER_OPEN


@pytest.mark.parametrize("fate", [Fate.LOST, Fate.UNHEARD, Fate.REFUSED])
async def test_a_write_that_fails_is_made_again(fate: Fate) -> None:
    world, revoking = await a_world()
    await world.defender.ask(an_ask("n0"))
    the_job(world, "n0")
    world.api.put(POLICIES, paused().to_dict())
    world.api.fates[world.api.writes] = fate
    await revoking.round()
    world.current()
    await revoking.round()
    assert states(world) == {"n0": PermitState.REVOKED}


async def test_who_gave_back_meanwhile_is_not_revoked() -> None:
    """The write carries the version that was read."""
    world, revoking = await a_world()
    verdict = await world.defender.ask(an_ask("n0"))
    the_job(world, "n0")
    world.api.put(POLICIES, paused().to_dict())
    await world.defender.release(verdict.permit)
    await revoking.round()
    assert states(world) == {"n0": PermitState.RELEASED}


async def test_a_job_that_cannot_be_read_keeps_its_permit_until_it_can() -> None:
    world, revoking = await a_world()
    await world.defender.ask(an_ask("n0"))
    the_job(world, "n0")
    world.api.put(POLICIES, paused().to_dict())
    world.api.down = True
    await revoking.round()
    assert states(world) == {"n0": PermitState.GRANTED}
    world.api.down = False
    await revoking.round()
    assert states(world) == {"n0": PermitState.REVOKED}


def test_which_steps_are_irreversible() -> None:
    def job(*records: dict[str, Any]) -> bool:
        obj = an_object().to_dict() | {"status": {"phase": "Running", "steps": list(records)}}
        return type(an_object()).model_validate(obj).began_irreversible

    assert not job()
    assert not job(record(0, "cordon"), record(1, "migrate", "Failed"))
    assert job(record(0, "cordon"), record(1, "migrate"), record(2, "agent", "Failed"))
    waits = record(2, "agent", "Waiting") | {"attempts": 0}
    assert not job(record(0, "cordon"), waits)
    assert job(record(2, "agent", "Waiting")), "begun once, and to be begun again"
    assert job({**record(0, "cordon"), "index": 9}), "of a step that we do not know: take no risk"
