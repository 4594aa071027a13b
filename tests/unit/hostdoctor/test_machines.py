"""The Remedy operator hands Machines to Host Doctor."""

from typing import Any

from support.remedy_hand import HandFed, Hands

from remedy.hostdoctor.machines import MachineView
from remedy.hostdoctor.nodes import IdentifierKind, NodeIdentifier, ResolutionReason
from remedy.hostdoctor.report import ReportedHost

ADDRESS = ReportedHost(addresses=("10.0.0.7",))


def a_machine(node_name: str) -> dict[str, Any]:
    """As the API server sends it, with fields that Host Doctor does not read."""
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "Machine",
        "metadata": {"name": "m", "resourceVersion": "7", "labels": {"a": "b"}},
        "spec": {"origin": "Import", "nodeName": node_name, "addresses": ["10.0.0.7"]},
        "status": {"phase": "Running"},
    }


async def test_remedy_resolves_a_claimed_address_by_the_machine() -> None:
    hands = Hands()
    status = {"addresses": [{"type": "InternalIP", "address": "10.0.0.7"}]}
    for name in ("thief", "victim"):
        hands.nodes.put({"metadata": {"name": name, "uid": f"uid-{name}"}, "status": status})
    assert hands.operator.desk.index.resolve(ADDRESS).why is ResolutionReason.AMBIGUOUS
    replaced: list[NodeIdentifier] = []
    hands.operator.desk.on_token = replaced.append
    machines: HandFed[MachineView] = hands.operator.informers.machines  # type: ignore[assignment]
    machines.put(a_machine("victim"))
    assert hands.operator.desk.index.resolve(ADDRESS).name == "victim"
    assert NodeIdentifier(IdentifierKind.ADDRESS, "10.0.0.7") in replaced
    machines.remove("m")
    assert hands.operator.desk.index.resolve(ADDRESS).why is ResolutionReason.AMBIGUOUS


def test_remedy_follows_machines_from_its_start() -> None:
    operator = Hands().operator
    assert operator.informers.machines in operator.ground
