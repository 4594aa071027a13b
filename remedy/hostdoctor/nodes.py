"""Resolves the machine of a source to a Node: an index of all identifiers of Nodes. Pure.

It follows the informer of Nodes, change by change; a heartbeat changes nothing here. Letter case
does not matter. An identifier of two Nodes resolves to neither: repairing the wrong host is worse
than repairing none.

A kubelet writes labels, annotations and addresses of its own Node. So metadata.name, which it
cannot choose, takes precedence: another Node's claim to the name does not make it ambiguous. Among
Nodes that claim the same address, providerID or agent, the one that a Machine names in its spec
decides, which no kubelet can write. A Machine may be outdated, so nothing resolves against it.
"""

import ipaddress
import re
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Generic, NamedTuple, TypeVar

from kubenode.runtime.kube.objects import Node
from remedy.hostdoctor.machines import MachineView
from remedy.hostdoctor.report import ReportedHost
from remedy.remedier.build import agent_of

K = TypeVar("K", bound=Hashable)

HOSTNAME_LABEL = "kubernetes.io/hostname"
_IPS = frozenset({"InternalIP", "ExternalIP"})
_PORT = re.compile(r":[0-9]{1,5}")
_SCALE_SET = re.compile(r"/virtualmachinescalesets/([^/]+)/virtualmachines/([^/]+)$")


class IdentifierKind(StrEnum):
    PROVIDER = "providerID"
    INSTANCE = "instance"
    NAME = "name"
    ADDRESS = "address"
    AGENT = "agent"


class NodeIdentifier(NamedTuple):
    """One identifier of a Node, in the form used for comparison."""

    kind: IdentifierKind
    value: str


class ResolutionReason(StrEnum):
    """Reason of the condition Resolved."""

    RESOLVED = "Resolved"
    NO_HOST = "NoHost"
    NO_NODE = "NotFound"
    AMBIGUOUS = "Ambiguous"
    OTHER_MACHINE = "OtherMachine"


@dataclass(frozen=True, slots=True)
class Resolution:
    """Result of resolving a machine. `name`, `uid` and `provider_id` are the Node's, "" if
    unresolved; `text` explains the result.
    """

    why: ResolutionReason
    text: str
    name: str = ""
    uid: str = ""
    provider_id: str = ""

    @property
    def resolved(self) -> bool:
        return self.why is ResolutionReason.RESOLVED


NO_HOST = Resolution(
    ResolutionReason.NO_HOST, "the source names no machine: this is never a node's fault"
)


@dataclass(frozen=True, slots=True)
class _KnownNode:
    name: str
    uid: str
    provider_id: str
    tokens: tuple[NodeIdentifier, ...]


@dataclass(frozen=True, slots=True)
class _MachineNode:
    """The Node of a Machine, and the identifiers that the Machine assigns to it."""

    node: str
    tokens: tuple[NodeIdentifier, ...]


class _Names(Generic[K]):
    """Names by key. Most keys have one name, for which a set would take 216 bytes."""

    def __init__(self) -> None:
        self._by: dict[K, tuple[str, ...]] = {}

    def get(self, key: K) -> tuple[str, ...]:
        return self._by.get(key, ())

    def add(self, name: str, keys: Iterable[K]) -> None:
        for key in keys:
            self._by[key] = (*self.get(key), name)

    def remove(self, name: str, keys: Iterable[K]) -> None:
        for key in keys:
            if names := tuple(each for each in self._by[key] if each != name):
                self._by[key] = names
            else:
                del self._by[key]


class NodeIndex:
    """Nodes by identifier, and Machines by the identifiers that they assign."""

    def __init__(self) -> None:
        self._nodes: dict[str, _KnownNode] = {}
        self._by = _Names[NodeIdentifier]()
        self._machines: dict[str, _MachineNode] = {}
        self._owners = _Names[NodeIdentifier]()
        """Names of Machines by the identifiers that they assign to their Node."""
        self._machines_of = _Names[str]()
        """Names of Machines by Node."""

    def __len__(self) -> int:
        return len(self._nodes)

    def changed(self, old: Node | None, new: Node | None) -> frozenset[NodeIdentifier]:
        """Take in a change of a Node; return the identifiers that now resolve differently."""
        node = new or old
        name = node.metadata.name if node is not None else ""
        before = self._nodes.get(name)
        after = _known(new) if new is not None else None
        if before == after:
            return frozenset()
        if before is not None:
            del self._nodes[name]
            self._by.remove(name, before.tokens)
        if after is not None:
            self._nodes[name] = after
            self._by.add(name, after.tokens)
        tokens = {*(before.tokens if before else ()), *(after.tokens if after else ())}
        if before is None or after is None:
            for machine in self._machines_of.get(name):
                tokens.update(self._machines[machine].tokens)
        return frozenset(tokens)

    def machine_changed(
        self, old: MachineView | None, new: MachineView | None
    ) -> frozenset[NodeIdentifier]:
        """Take in a change of a Machine; return the identifiers that may resolve differently."""
        machine = new or old
        name = machine.metadata.name if machine is not None else ""
        before = self._machines.get(name)
        after = _owner(new) if new is not None else None
        if before == after:
            return frozenset()
        if before is not None:
            del self._machines[name]
            self._owners.remove(name, before.tokens)
            self._machines_of.remove(name, (before.node,))
        if after is not None:
            self._machines[name] = after
            self._owners.add(name, after.tokens)
            self._machines_of.add(name, (after.node,))
        return frozenset((*(before.tokens if before else ()), *(after.tokens if after else ())))

    def resolve(self, host: ReportedHost | None) -> Resolution:
        """Return the Node of a machine, by its most reliable identifier; None is no machine."""
        if host is None:
            return NO_HOST
        identifiers = list(tokens_of(host))
        for token in identifiers:
            names = self._names(token)
            if len(names) > 1:
                few = ", ".join(sorted(names)[:3])
                text = f"{token.kind} {token.value} is that of {len(names)} nodes: {few}"
                return Resolution(ResolutionReason.AMBIGUOUS, text)
            for name in names:
                return _fits(self._nodes[name], identifiers)
        if not identifiers:
            return NO_HOST
        shown = ", ".join(f"{token.kind} {token.value}" for token in identifiers[:4])
        return Resolution(ResolutionReason.NO_NODE, f"no node goes by {shown}")

    def of_agent(self, agent: str) -> Resolution:
        """Return the one Node that names this agent as its own."""
        names = self._names(NodeIdentifier(IdentifierKind.AGENT, agent))
        if len(names) != 1:
            why = ResolutionReason.AMBIGUOUS if names else ResolutionReason.NO_NODE
            return Resolution(why, f"{len(names)} nodes have the agent {agent}")
        return _of(self._nodes[names[0]])

    def _names(self, token: NodeIdentifier) -> tuple[str, ...]:
        """Return the Nodes with this identifier: the one with this metadata.name, else all that
        claim it.

        If a Machine assigns it to a Node that claims it too, only that Node; if not, both.
        """
        names = self._by.get(token)
        if own := tuple(name for name in names if _is_own(name, token)):
            return own
        machines = self._owners.get(token) if names else ()
        owners = {self._machines[each].node for each in machines} & self._nodes.keys()
        if not owners:
            return names
        return tuple(name for name in names if name in owners) or (*names, *owners)

    def exists(self, name: str, uid: str) -> bool:
        """Report whether a Node of this name exists, with this uid unless it is ""."""
        known = self._nodes.get(name)
        return known is not None and (not uid or known.uid == uid)

    def is_of(self, name: str, host: ReportedHost) -> bool:
        """Report whether the Node has any identifier of `host`."""
        known = self._nodes.get(name)
        return known is not None and any(token in known.tokens for token in tokens_of(host))


def _is_own(name: str, token: NodeIdentifier) -> bool:
    """Report whether `token` is the Node's metadata.name, and not a claim of its kubelet."""
    return token.value == name if token.kind is IdentifierKind.AGENT else token == _named(name)


def tokens_of(host: ReportedHost) -> Iterator[NodeIdentifier]:
    """Yield the identifiers of the host, the most reliable first."""
    if host.provider_id:
        yield NodeIdentifier(IdentifierKind.PROVIDER, host.provider_id.lower())
    if host.instance:
        yield NodeIdentifier(IdentifierKind.INSTANCE, instance_of(host.instance))
    for name in (*host.names, *host.addresses):
        if token := _named(name):
            yield token


def instance_of(text: str) -> str:
    """Return the cloud's instance ID, from the ID itself, a providerID or a resource ID."""
    text = text.strip().lower()
    if match := _SCALE_SET.search(text):
        return f"{match[1]}_{match[2]}"
    last = text.rstrip("/").rpartition("/")[2]
    region, dot, instance = last.partition(".")
    return instance if dot and instance.startswith("i-") else last or region


@lru_cache(maxsize=8192)
def _named(text: str) -> NodeIdentifier | None:
    """Parse a name or an address, each with or without port; None if it is empty."""
    text = text.strip().lower()
    if not text:
        return None
    if address := _address(text):
        return NodeIdentifier(IdentifierKind.ADDRESS, address)
    bare = text.rstrip(".")
    head, colon, _ = bare.rpartition(":")
    if colon and _PORT.fullmatch(bare[len(head) :]):
        bare = head.rstrip(".")
    if not bare:
        return None
    if address := _address(bare.removeprefix("[").removesuffix("]")):
        return NodeIdentifier(IdentifierKind.ADDRESS, address)
    return NodeIdentifier(IdentifierKind.NAME, bare)


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return ""


def _known(node: Node) -> _KnownNode:
    meta, provider = node.metadata, node.spec.provider_id
    tokens = [NodeIdentifier(IdentifierKind.AGENT, agent_of(node))]
    if token := _named(meta.name):  # some clusters name nodes by their address
        tokens.append(token)
    if provider:
        tokens.append(NodeIdentifier(IdentifierKind.PROVIDER, provider.lower()))
        tokens.append(NodeIdentifier(IdentifierKind.INSTANCE, instance_of(provider)))
    tokens += _addressed(node)
    return _KnownNode(meta.name, meta.uid, provider, tuple(dict.fromkeys(tokens)))


def _addressed(node: Node) -> Iterable[NodeIdentifier]:
    if hostname := node.metadata.labels.get(HOSTNAME_LABEL):
        yield NodeIdentifier(IdentifierKind.NAME, hostname.lower())
    for each in node.status.addresses:
        text = each.address.lower()
        if each.type in _IPS:
            if address := _address(text):
                yield NodeIdentifier(IdentifierKind.ADDRESS, address)
        elif text:
            yield NodeIdentifier(IdentifierKind.NAME, text.rstrip("."))


def _owner(machine: MachineView) -> _MachineNode:
    tokens = [NodeIdentifier(IdentifierKind.AGENT, machine.metadata.name)]
    if provider := machine.spec.provider_id:
        tokens.append(NodeIdentifier(IdentifierKind.PROVIDER, provider.lower()))
        tokens.append(NodeIdentifier(IdentifierKind.INSTANCE, instance_of(provider)))
    for text in machine.spec.addresses:
        if address := _address(text):
            tokens.append(NodeIdentifier(IdentifierKind.ADDRESS, address))
    return _MachineNode(machine.node_name, tuple(dict.fromkeys(tokens)))


def _fits(known: _KnownNode, identifiers: list[NodeIdentifier]) -> Resolution:
    """Resolve to the Node, unless its providerID or instance shows that a name or address moved to
    it from another machine.
    """
    for kind in (IdentifierKind.PROVIDER, IdentifierKind.INSTANCE):
        meant = {t.value for t in identifiers if t.kind is kind}
        has = {t.value for t in known.tokens if t.kind is kind}
        if meant and has and not meant & has:
            text = f"node {known.name} is {kind} {min(has)}, not {min(meant)}"
            return Resolution(ResolutionReason.OTHER_MACHINE, text)
    return _of(known)


def _of(known: _KnownNode) -> Resolution:
    text = f"node {known.name}"
    return Resolution(ResolutionReason.RESOLVED, text, known.name, known.uid, known.provider_id)
