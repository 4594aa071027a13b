"""The question `peers`: do other nodes reach the host? Whom to ask, what their words mean. Pure.

Three nodes of other racks and zones are asked, each by its agent. One peer's word is not enough:
it may be confused, or cut off itself. So each says as well whether it reaches another node that
is well; who does not even reach that one is no witness. `reachable` is true when most reach the
host, false when none of at least two does, and unknown between.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import API_VERSION
from kubenode.api.v1alpha1.hostprobe import HostProbe, ProbeName
from kubenode.runtime.kube.objects import Node
from remedy.hostprobes.asking import DIGEST_LENGTH, NAME_LENGTH
from remedy.remedier.fleet import GROUP_LABELS
from rules.facts import Value

WITNESSES = 3
FEWEST = 2
"""Answers that say anything."""
LOOKED_AT = 256
"""Nodes that are looked at as witnesses: in a fleet of 10,000 three are found among the first."""
KUBELET_PORT = 10250
FOR = "for"
"""Argument of a question to a witness: the name of the question that it is part of."""


@dataclass(frozen=True, slots=True)
class WitnessAddress:
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Witness:
    """A node whose agent may be asked. `places`: its zone and rack, as far as they are known."""

    node: str
    agent: str
    address: WitnessAddress
    places: frozenset[tuple[str, str]]


def address_of(node: Node) -> WitnessAddress | None:
    """Where its kubelet listens; None for a node without an address."""
    told = {a.type: a.address for a in reversed(node.status.addresses)}
    host = told.get("InternalIP") or told.get("ExternalIP")
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
    """All names but the target's, from another start for each target: no node is everybody's
    witness.
    """
    known = [name for name in names if name != target]
    start = int(_digest(target), 16) % max(len(known), 1)
    return known[start:] + known[:start]


def choose(target: Node, candidates: Iterable[Witness]) -> list[Witness]:
    """At most three, from as many places as there are, rather not from the target's own."""
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
    asked: HostProbe, target: WitnessAddress, witness: Witness, control: WitnessAddress
) -> dict[str, Any]:
    """The body of the create request. It is about no node: only `asked` is."""
    name = f"{asked.metadata.name[: NAME_LENGTH - DIGEST_LENGTH - 1].rstrip('.-')}"
    args = {
        FOR: asked.metadata.name,
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
            "expiresAt": format_time(asked.spec.expires_at),
        },
    }


def questions(asked: HostProbe, target: Node, witnesses: Sequence[Witness]) -> list[dict[str, Any]]:
    """One for each witness; the next one's kubelet is what it must reach to be believed."""
    address = address_of(target)
    if address is None or len(witnesses) < FEWEST:
        return []
    following = [*witnesses[1:], witnesses[0]]
    return [
        question(asked, address, witness, control.address)
        for witness, control in zip(witnesses, following, strict=True)
    ]


def part_of(probe: HostProbe) -> tuple[str, ...]:
    """The name of the question that a witness was asked for; none for any other question."""
    name = probe.spec.args.get(FOR)
    return () if name is None else (name,)


def said(probe: HostProbe) -> bool | None:
    """Whether the witness reaches the host; None: it has not answered, or is not to be believed."""
    status = probe.status
    if status.answered_at is None or status.error:
        return None
    reached, control = status.answer.get("reached"), status.answer.get("control")
    if reached is True:
        return True
    return False if reached is False and control is True else None


def verdict(words: Iterable[bool | None]) -> Mapping[str, Value]:
    """The answer to the question `peers`, as far as the words of the witnesses go."""
    given = [word for word in words if word is not None]
    yes = sum(given)
    if len(given) < FEWEST:
        return {}
    if 2 * yes > len(given):
        return {"reachable": True}
    return {"reachable": False} if yes == 0 else {}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]
