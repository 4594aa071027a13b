"""While a restore of etcd freezes, nobody knows which permits were granted since the backup."""

from copy import deepcopy

import pytest
from support.defender_world import PERMITS, World, a_policy, an_ask

from kubenode.api.v1alpha1 import Disruption, Reason
from kubenode.api.v1alpha1.defenderpolicy import Limit, LimitScope

HOST = frozenset({Disruption.HOST})
RESTORED = "the cluster's data were restored from a backup"


@pytest.mark.parametrize("class_", [Disruption.PODS, Disruption.NODE])
async def test_no_permit_that_limits_count_is_granted_until_the_freeze_is_lifted(
    class_: Disruption,
) -> None:
    world = World(4, a_policy())
    defender = await world.start()
    world.restored = RESTORED
    verdict = await defender.ask(an_ask("n0", class_=class_))
    assert verdict.reason is Reason.STALE_DATA
    assert RESTORED in verdict.message and "kubenode freeze lift" in verdict.message
    world.restored = ""
    assert (await defender.ask(an_ask("n0", class_=class_))).allowed


async def test_a_repair_of_class_host_goes_on_while_a_restore_freezes() -> None:
    world = World(4, a_policy())
    defender = await world.start()
    world.restored = RESTORED
    assert (await defender.ask(an_ask("n0", class_=Disruption.HOST))).allowed


async def test_a_permit_that_is_known_is_confirmed_while_a_restore_freezes() -> None:
    world = World(4, a_policy())
    defender = await world.start()
    before = await defender.ask(an_ask("n0"))
    world.restored = RESTORED
    after = await defender.ask(an_ask("n0"))
    assert after.allowed and after.permit == before.permit


async def test_a_permit_that_was_released_since_the_backup_counts_again_when_it_is_back() -> None:
    """Its job of the backup is under way again, and other processes count the permit too."""
    world = World(4, a_policy(Limit(scope=LimitScope.CLUSTER, max_concurrent=1, classes=HOST)))
    defender = await world.start()
    granted = await defender.ask(an_ask("n0", class_=Disruption.HOST))
    backup = deepcopy(world.api.objects[PERMITS]), world.api.version
    await defender.release(granted.permit)
    world.restore(*backup)
    assert not (await defender.ask(an_ask("n1", class_=Disruption.HOST))).allowed
    await defender.release(granted.permit)
    assert not world.api.open_permits()
    assert (await defender.ask(an_ask("n1", class_=Disruption.HOST))).allowed
