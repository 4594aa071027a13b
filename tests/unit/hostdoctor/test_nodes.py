"""Which Node a source means."""

from typing import Any

import msgspec
import pytest
from support.host_doctor import index, node

from kubenode.runtime.kube.objects import Node
from remedy.hostdoctor.machines import MachineView
from remedy.hostdoctor.nodes import (
    IdentifierKind,
    NodeIdentifier,
    NodeIndex,
    ResolutionReason,
    instance_of,
)
from remedy.hostdoctor.report import ReportedHost

VMSS = (
    "azure:///subscriptions/1b7b2e4a-0000-0000-0000-000000000000/resourceGroups/MC_x/providers"
    "/Microsoft.Compute/virtualMachineScaleSets/aks-pool-vmss/virtualMachines/3"
)
NODES = index(
    node("worker-17", ("InternalIP", "10.0.0.21"), ("Hostname", "worker-17.dc1"),
         provider="aws:///eu-1a/i-0abc"),
    node("ip-10-0-0-22.ec2.internal", ("InternalIP", "10.0.0.22"), ("InternalIP", "fd00::22"),
         provider="aws:///eu-1a/i-0def"),
    node("aks-pool-vmss000003", provider=VMSS),
    node("twin-a", ("ExternalIP", "192.0.2.1")),
    node("twin-b", ("ExternalIP", "192.0.2.1")),
    node("10.9.9.9"),
    node("labelled", labels={"kubernetes.io/hostname": "Host-7"}),
)  # fmt: skip


@pytest.mark.parametrize(
    ("host", "name"),
    [
        (ReportedHost(provider_id="aws:///eu-1a/i-0abc"), "worker-17"),
        (ReportedHost(provider_id=VMSS.upper()), "aks-pool-vmss000003"),
        (ReportedHost(instance="i-0abc"), "worker-17"),
        (ReportedHost(instance="aks-pool-vmss_3"), "aks-pool-vmss000003"),
        (ReportedHost(instance=VMSS.removeprefix("azure://").lower()), "aks-pool-vmss000003"),
        (ReportedHost(names=("worker-17",)), "worker-17"),
        (ReportedHost(names=("WORKER-17.DC1.",)), "worker-17"),
        (ReportedHost(names=("worker-17.dc1:9100",)), "worker-17"),
        (ReportedHost(names=("10.0.0.21:9100",)), "worker-17"),
        (ReportedHost(names=("10.0.0.22",)), "ip-10-0-0-22.ec2.internal"),
        (ReportedHost(names=("[fd00::22]:9100",)), "ip-10-0-0-22.ec2.internal"),
        (ReportedHost(names=("fd00:0::22",)), "ip-10-0-0-22.ec2.internal"),
        (ReportedHost(addresses=("10.0.0.21",)), "worker-17"),
        (ReportedHost(names=("nobody", "worker-17")), "worker-17"),
        (ReportedHost(names=("10.9.9.9:9100",)), "10.9.9.9"),
        (ReportedHost(names=("host-7",)), "labelled"),
        (ReportedHost(instance="i-0abc", names=("worker-17",)), "worker-17"),
    ],
)
def test_found(host: ReportedHost, name: str) -> None:
    found = NODES.resolve(host)
    assert (found.why, found.name, found.uid) == (ResolutionReason.RESOLVED, name, f"uid-{name}")


@pytest.mark.parametrize(
    ("host", "why", "text"),
    [
        (None, ResolutionReason.NO_HOST, "never a node's fault"),
        (ReportedHost(), ResolutionReason.NO_HOST, "never a node's fault"),
        (ReportedHost(names=(":9100",)), ResolutionReason.NO_HOST, "never a node's fault"),
        (
            ReportedHost(names=("worker",)),
            ResolutionReason.NO_NODE,
            "no node goes by name worker",
        ),
        (ReportedHost(names=("10.0.0.99:80",)), ResolutionReason.NO_NODE, "address 10.0.0.99"),
        (
            ReportedHost(addresses=("192.0.2.1",)),
            ResolutionReason.AMBIGUOUS,
            "2 nodes: twin-a, twin-b",
        ),
        (
            ReportedHost(instance="i-0old", names=("worker-17",)),
            ResolutionReason.OTHER_MACHINE,
            "not i-0old",
        ),
        (
            ReportedHost(provider_id="aws:///eu-1a/i-0old", names=("worker-17",)),
            ResolutionReason.OTHER_MACHINE,
            "not",
        ),
    ],
)
def test_not_found(host: ReportedHost | None, why: ResolutionReason, text: str) -> None:
    found = NODES.resolve(host)
    assert (found.why, found.name) == (why, "")
    assert text in found.text


def test_changes_are_followed_one_by_one() -> None:
    nodes = NodeIndex()
    first, moved = node("a", ("InternalIP", "10.0.0.1")), node("a", ("InternalIP", "10.0.0.2"))
    assert NodeIdentifier("address", "10.0.0.1") in nodes.changed(None, first)  # type: ignore[arg-type]
    assert nodes.changed(first, first) == frozenset(), "a heartbeat"
    nodes.changed(first, moved)
    assert not nodes.resolve(ReportedHost(addresses=("10.0.0.1",))).resolved
    assert nodes.resolve(ReportedHost(addresses=("10.0.0.2",))).name == "a"
    nodes.changed(moved, None)
    assert len(nodes) == 0
    assert not nodes.resolve(ReportedHost(names=("a",))).resolved


def test_an_agent_is_of_the_one_node_that_names_it() -> None:
    machine = {"kubenode.io/machine": "m1"}
    nodes = index(node("a", annotations=machine), node("b"))
    assert nodes.of_agent("m1").name == "a"
    assert nodes.of_agent("b").name == "b"
    assert nodes.of_agent("a").why is ResolutionReason.NO_NODE
    nodes.changed(None, node("thief", annotations=machine))
    assert nodes.of_agent("m1").why is ResolutionReason.AMBIGUOUS, (
        "who claims another's agent silences it"
    )


@pytest.mark.parametrize(
    "claim",
    [
        node("thief", labels={"kubernetes.io/hostname": "victim"}),
        node("thief", ("Hostname", "Victim")),
        node("thief", ("InternalDNS", "victim.")),
        node("thief", annotations={"kubenode.io/machine": "victim"}),
    ],
    ids=["label", "hostname", "DNS", "annotation"],
)
def test_a_name_that_a_node_claims_takes_no_name_away(claim: Node) -> None:
    """Finding 6: a kubelet writes labels, annotations and addresses of its own Node."""
    nodes = index(claim, node("victim"))
    assert nodes.resolve(ReportedHost(names=("victim",))).name == "victim"
    assert nodes.of_agent("victim").name == "victim"
    assert nodes.resolve(ReportedHost(names=("thief",))).name == "thief"


def test_an_address_that_a_node_claims_takes_no_name_away() -> None:
    nodes = index(node("10.0.0.7"), node("thief", ("InternalIP", "10.0.0.7")))
    assert nodes.resolve(ReportedHost(addresses=("10.0.0.7",))).name == "10.0.0.7"
    assert nodes.resolve(ReportedHost(names=("10.0.0.7:9100",))).name == "10.0.0.7"


def test_a_claimed_name_is_the_owners_from_the_moment_there_is_one() -> None:
    thief, victim = node("thief", ("Hostname", "victim")), node("victim")
    nodes = index(thief)
    assert nodes.resolve(ReportedHost(names=("victim",))).name == "thief"
    assert NodeIdentifier("name", "victim") in nodes.changed(None, victim)  # type: ignore[arg-type]
    assert nodes.resolve(ReportedHost(names=("victim",))).name == "victim"


@pytest.mark.parametrize(
    ("text", "instance"),
    [
        ("aws:///eu-1a/i-0abc", "i-0abc"),
        ("gce://project/zone/Name-1", "name-1"),
        ("cn-hangzhou.i-bp1abc", "i-bp1abc"),
        ("alicloud://cn-hangzhou.i-bp1abc", "i-bp1abc"),
        (VMSS, "aks-pool-vmss_3"),
        ("vmss_vm1", "vmss_vm1"),
    ],
)
def test_the_clouds_own_name(text: str, instance: str) -> None:
    assert instance_of(text) == instance


# -- what Machines say -----------------------------------------------------------------------------

CLAIMS = ("InternalIP", "10.0.0.7"), ("Hostname", "rack-7")


def with_machine(nodes: NodeIndex, name: str, node_name: str = "", **spec: Any) -> NodeIndex:
    body = {"metadata": {"name": name}, "spec": {"nodeName": node_name, **spec}}
    nodes.machine_changed(None, msgspec.convert(body, MachineView))
    return nodes


OWNED = [
    (ReportedHost(addresses=("10.0.0.7",)), {"addresses": ["10.0.0.7"]}),
    (ReportedHost(provider_id="aws:///eu-1a/i-7"), {"providerID": "aws:///eu-1a/i-7"}),
    (ReportedHost(instance="i-7"), {"providerID": "aws:///eu-1a/i-7"}),
]


@pytest.mark.parametrize(("host", "spec"), OWNED, ids=["address", "providerID", "instance"])
def test_a_machine_decides_between_nodes_that_claim_the_same(
    host: ReportedHost, spec: dict[str, Any]
) -> None:
    """A kubelet writes addresses of its own Node, and its providerID while it is empty."""
    victim = node("victim", *CLAIMS, provider="aws:///eu-1a/i-7")
    nodes = index(node("thief", *CLAIMS, provider="aws:///eu-1a/i-7"), victim)
    assert nodes.resolve(host).why is ResolutionReason.AMBIGUOUS
    assert with_machine(nodes, "m", "victim", **spec).resolve(host).name == "victim"


@pytest.mark.parametrize(("host", "spec"), OWNED, ids=["address", "providerID", "instance"])
def test_a_claim_against_a_machine_of_another_node_resolves_to_none(
    host: ReportedHost, spec: dict[str, Any]
) -> None:
    """Also where the other Node lost it: a Machine may be out of date, and so decides nothing."""
    nodes = index(node("thief", *CLAIMS, provider="aws:///eu-1a/i-7"), node("victim"))
    assert nodes.resolve(host).name == "thief"
    found = with_machine(nodes, "m", "victim", **spec).resolve(host)
    assert (found.why, "2 nodes: thief, victim" in found.text) == (ResolutionReason.AMBIGUOUS, True)


def test_a_machine_decides_whose_agent_it_is() -> None:
    claim = {"kubenode.io/machine": "m1"}
    nodes = index(node("a", annotations=claim), node("thief", annotations=claim))
    assert nodes.of_agent("m1").why is ResolutionReason.AMBIGUOUS
    assert with_machine(nodes, "m1", "a").of_agent("m1").name == "a"


def test_a_machine_without_a_node_name_has_the_node_of_its_own_name() -> None:
    nodes = index(node("thief", *CLAIMS), node("victim", *CLAIMS))
    with_machine(nodes, "victim", addresses=["10.0.0.7"])
    assert nodes.resolve(ReportedHost(addresses=("10.0.0.7",))).name == "victim"


def test_a_machine_without_a_node_changes_nothing() -> None:
    nodes = index(node("worker", *CLAIMS))
    with_machine(nodes, "outside", addresses=["10.0.0.7"])
    assert nodes.resolve(ReportedHost(addresses=("10.0.0.7",))).name == "worker"


def test_changes_of_machines_are_followed() -> None:
    nodes = index(node("thief", *CLAIMS), node("victim", *CLAIMS))
    address = ReportedHost(addresses=("10.0.0.7",))
    body = {"metadata": {"name": "m"}, "spec": {"nodeName": "victim", "addresses": ["10.0.0.7"]}}
    machine = msgspec.convert(body, MachineView)
    changed = nodes.machine_changed(None, machine)
    assert NodeIdentifier(IdentifierKind.ADDRESS, "10.0.0.7") in changed, "events are resolved anew"
    assert nodes.machine_changed(machine, machine) == frozenset(), "its status changed"
    assert nodes.resolve(address).name == "victim"
    assert NodeIdentifier(IdentifierKind.ADDRESS, "10.0.0.7") in nodes.machine_changed(
        machine, None
    )
    assert nodes.resolve(address).why is ResolutionReason.AMBIGUOUS
