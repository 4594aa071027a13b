"""F22: a host that a change has rebooted and that does not come back."""

from datetime import datetime, timedelta

from support.clock import T0
from support.rollout_model import TICK, World, fleet

from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machinecomponentset import UpdateStrategy
from kubenode.runtime.kube.objects import KubeObjectMeta, Node, NodeCondition, NodeStatus
from machine.componentset.facts import START_WITHIN, MachineSurroundings, SetView, member_of
from machine.componentset.leave import PermitAct, leave_for
from machine.componentset.member import MemberState, RolloutMember

R = "1-0000000002"
REBOOT = timedelta(minutes=20)
STRATEGY = UpdateStrategy()
LIMIT = STRATEGY.machine_timeout + REBOOT


def rebooting() -> Machine:
    """What its agent said last, before it ordered the reboot that it had leave for."""
    given = {"name": "c", "revision": R, "configHash": R}
    permit = {
        "name": "p",
        "components": ["c"],
        "maxDisruption": "Reboot",
        "startBefore": (T0 + START_WITHIN).isoformat(),
    }
    assigned = {**given, "component": "c-2", "set": "s", "assignedAt": T0.isoformat()}
    body = {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "Machine",
        "metadata": {"name": "m1", "uid": "u"},
        "spec": {"addresses": ["10.0.0.1"], "components": [assigned], "permit": permit},
        "status": {
            "components": [{**given, "attempt": 1, "state": "Applying"}],
            "nodeRef": {"name": "m1"},
        },
    }
    return Machine.model_validate(body)


def away() -> RolloutMember:
    unknown = NodeStatus(conditions=[NodeCondition(type="Ready", status="Unknown")])
    around = MachineSurroundings(Node(KubeObjectMeta(name="m1"), status=unknown), answers=False)
    return member_of(rebooting(), around, SetView("s", "c", STRATEGY, reboot=REBOOT))


def test_f22_it_has_failed_once_its_limit_passes_and_is_out_of_service_all_along() -> None:
    found = away()
    assert found.standing is MemberState.ACTING and found.down and not found.available
    assert not found.failed(T0 + LIMIT - TICK) and found.busy(T0 + LIMIT - TICK)
    assert found.failed(T0 + LIMIT) and not found.busy(T0 + LIMIT)


def test_f22_the_set_stops_names_it_and_counts_it_though_its_agent_says_nothing() -> None:
    world = World.of(*fleet(10))
    world.run(50, until=lambda world: "B" in [a for h in world.hosts.values() for a in h.acted])
    (touched,) = world.assigned("B")
    world.hosts[touched].answers = world.hosts[touched].ready = False
    world.run(200)
    assert world.rollout.phase == "Paused" and world.rollout.batch.failed == (touched,)
    assert world.plan.paused is not None and touched in world.plan.paused.message
    assert world.assigned("B") == [touched], "no second machine is taken down"
    assert world.plan.counts.unavailable == 1


def test_f22_its_slot_is_free_again_though_nobody_speaks_for_it() -> None:
    def act(now: datetime) -> PermitAct:
        return leave_for(rebooting(), {"s"}, ("s",), now, LIMIT).act

    assert act(T0 + START_WITHIN) is PermitAct.KEEP, "it may still be at it"
    assert act(T0 + START_WITHIN + LIMIT) is PermitAct.CLEAR
