"""The probe `peers`: do other nodes reach the host? Chooses witnesses and evaluates their answers.
Pure.

Three nodes of other racks and zones are probed, each through its agent. One answer is not enough:
the peer may be wrong, or isolated itself. So each also reports whether it reaches another healthy
node, and an answer of a peer that does not is ignored. `reachable` is true when most reach the
host, false when none of at least two does, and unknown otherwise.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import API_VERSION
from kubenode.api.v1alpha1.hostprobe import HostProbe, ProbeName
from kubenode.runtime.kube.objects import Node
from remedy.hostprobes.schedule import DIGEST_LENGTH, NAME_LENGTH
from remedy.remedier.fleet import GROUP_LABELS
from rules.facts import Value

WITNESSES = 3
FEWEST = 2
"""Fewest answers that allow a verdict."""
LOOKED_AT = 256
"""Most candidates that are considered: in a fleet of 10,000 three are found among the first."""
KUBELET_PORT = 10250
FOR = "for"
"""Argument of a probe of a witness: the name of the probe that it is sent for."""


@dataclass(frozen=True, slots=True)
class WitnessAddress:
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Witness:
    """A node with an agent that may be asked. `places`: its zone and rack, as far as known."""

    node: str
    agent: str
    address: WitnessAddress
    places: frozenset[tuple[str, str]]


def address_of(node: Node) -> WitnessAddress | None:
    """Return where the node's kubelet listens; None for a node without an address."""
    addresses = {a.type: a.address for a in reversed(node.status.addresses)}
    host = addresses.get("InternalIP") or addresses.get("ExternalIP")
    if not host:
        return None
    endpoints = node.status.daemon_endpoints
    port = endpoints.kubelet_endpoint.port if endpoints is not None else 0
    return WitnessAddress(host, port or KUBELET_PORT)


def places_of(node: Node) -> frozenset[tuple[str, str]]:
    labels = node.metadata.labels
    return frozenset(
        (scope, value) for scope in ("zone", "rack") if (value := labels.get(GROUP_LABELS[scope]))
    )


def order(target: str, names: Iterable[str]) -> list[str]:
    """Return all names but the target's, starting at another one for each target, so that the load
    is spread.
    """
    known = [name for name in names if name != target]
    start = int(_digest(target), 16) % max(len(known), 1)
    return known[start:] + known[:start]


def choose(target: Node, candidates: Iterable[Witness]) -> list[Witness]:
    """Return at most three witnesses, from as many zones and racks as possible, preferably not the
    target's own.
    """
    taken = set(places_of(target))
    first: list[Witness] = []
    rest: list[Witness] = []
    for count, witness in enumerate(candidates, start=1):
        if witness.places.isdisjoint(taken) and len(first) < WITNESSES:
            first.append(witness)
            taken |= witness.places
        else:
            rest.append(witness)
        if len(first) == WITNESSES or count == LOOKED_AT:
            break
    near = places_of(target)
    return [*first, *sorted(rest, key=lambda w: len(w.places & near))][:WITNESSES]


def question(
    probe: HostProbe, target: WitnessAddress, witness: Witness, control: WitnessAddress
) -> dict[str, Any]:
    """Return the body of the create request. spec.nodeName is empty; only `probe` identifies the
    node.
    """
    name = f"{probe.metadata.name[: NAME_LENGTH - DIGEST_LENGTH - 1].rstrip('.-')}"
    args = {
        FOR: probe.metadata.name,
        "address": target.host,
        "port": str(target.port),
        "controlAddress": control.host,
        "controlPort": str(control.port),
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "HostProbe",
        "metadata": {"name": f"{name}-{_digest(witness.node)}"},
        "spec": {
            "agent": witness.agent,
            "name": str(ProbeName.PEERS),
            "args": args,
            "expiresAt": format_time(probe.spec.expires_at),
        },
    }


def questions(probe: HostProbe, target: Node, witnesses: Sequence[Witness]) -> list[dict[str, Any]]:
    """Return one probe for each witness; each must also reach the kubelet of the next witness."""
    address = address_of(target)
    if address is None or len(witnesses) < FEWEST:
        return []
    following = [*witnesses[1:], witnesses[0]]
    return [
        question(probe, address, witness, control.address)
        for witness, control in zip(witnesses, following, strict=True)
    ]


def part_of(probe: HostProbe) -> tuple[str, ...]:
    """Return the name of the probe that a witness was probed for; empty for any other probe."""
    name = probe.spec.args.get(FOR)
    return () if name is None else (name,)


def read_reachability(probe: HostProbe) -> bool | None:
    """Return whether the witness reaches the host; None: no answer, or not reliable."""
    status = probe.status
    if status.answered_at is None or status.error:
        return None
    reached, control = status.answer.get("reached"), status.answer.get("control")
    if reached is True:
        return True
    return False if reached is False and control is True else None


def verdict(reached: Iterable[bool | None]) -> Mapping[str, Value]:
    """Return the answer of the probe `peers`; empty if the witnesses do not decide it."""
    given = [word for word in reached if word is not None]
    yes = sum(given)
    if len(given) < FEWEST:
        return {}
    if 2 * yes > len(given):
        return {"reachable": True}
    return {"reachable": False} if yes == 0 else {}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]
