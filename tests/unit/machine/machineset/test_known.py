"""What is kept of a Machine is what would be made of it now."""

from datetime import timedelta

from support.clock import T0

from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machineset import MachineSetHealth
from kubenode.runtime.kube.objects import KubeObjectMeta, Node
from machine.machineset.known import KnownMembers
from machine.machineset.observe import MemberSurroundings, member
from rules.facts import ConditionFact

HEALTH = MachineSetHealth()
META = {"name": "m", "creationTimestamp": "2026-01-01T00:00:00Z"}


def a_machine(phase: str) -> Machine:
    spec = {"origin": "Provision", "classRef": "c", "minReady": "5m"}
    status = {"phase": phase, "nodeRef": {"name": "m"}}
    return Machine.model_validate({"metadata": META, "spec": spec, "status": status})


def test_it_is_made_anew_when_anything_that_it_is_made_of_is_another() -> None:
    known = KnownMembers()
    node = Node(KubeObjectMeta(name="m"))
    silent = {"Ready": ConditionFact("Ready", "Unknown", "", "", T0, T0)}
    sooner = {"Ready": ConditionFact("Ready", "Unknown", "", "", T0 - timedelta(hours=1), T0)}
    machine, minute = a_machine("Running"), timedelta(minutes=1)
    looks = [
        (machine, MemberSurroundings(), "1-a", HEALTH, T0),
        (machine, MemberSurroundings(node, conditions=silent), "1-a", HEALTH, T0),
        (machine, MemberSurroundings(node, conditions=sooner), "1-a", HEALTH, T0),
        (machine, MemberSurroundings(node, conditions=silent), "1-a", HEALTH, T0 + 9 * minute),
        (machine, MemberSurroundings(node, conditions=silent), "1-a", HEALTH, T0 + 10 * minute),
        (machine, MemberSurroundings(node, "job-1"), "1-a", HEALTH, T0 + 10 * minute),
        (machine, MemberSurroundings(node, "", T0 + 8 * minute), "1-a", HEALTH, T0 + 10 * minute),
        (machine, MemberSurroundings(node, "", T0 + 8 * minute), "1-b", HEALTH, T0 + 13 * minute),
        (a_machine("Failed"), MemberSurroundings(node), "1-b", HEALTH, T0),
        (machine, MemberSurroundings(node), "1-b", MachineSetHealth(), T0),
    ]
    for look in [*looks, *reversed(looks)]:
        assert known.member(*look) == member(*look)
        assert known.member(*look) == member(*look)
