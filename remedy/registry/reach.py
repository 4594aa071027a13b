"""Counts the nodes that each rule selects, by the labels that selectors read.

Nodes with the same values of those labels form one class, counted once for all rules that read the
same keys. A change of a node moves it from one class to another; 100 rules over 10,000 nodes are
then a few classes each, not a million comparisons.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kubenode.api.meta import LabelSelector
from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.api.v1alpha1.steps import ReplacePath
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node

TURN = 500
"""Rules, nodes or classes to process before yielding to the event loop."""
MARKS: Mapping[ReplacePath, tuple[str, ...]] = {
    ReplacePath.MACHINE: ("kubenode.io/machine",),
    ReplacePath.CLUSTER_API: ("cluster.x-k8s.io/machine",),
    ReplacePath.KARPENTER: ("karpenter.sh/nodepool", "karpenter.sh/provisioner-name"),
    ReplacePath.INSTANCE_GROUP: (
        "eks.amazonaws.com/nodegroup",
        "cloud.google.com/gke-nodepool",
        "kubernetes.azure.com/agentpool",
        "alibabacloud.com/nodepool-id",
        "node.kubernetes.io/instance-group",
    ),
}
"""Labels and annotations of a node that show which system would create its replacement."""
Paths = frozenset[ReplacePath]
Class = tuple[tuple[str | None, ...], Paths]
"""Values of the labels that are read, None for an absent one, and ways to replace the node."""


@dataclass(frozen=True, slots=True)
class Size:
    """How many nodes a rule selects, and how many of them can be replaced."""

    nodes: int = 0
    with_replace_path: int = 0


def replace_paths(node: Node) -> Paths:
    """Return the ways in which the node can be replaced."""
    marks = node.metadata.labels.keys() | node.metadata.annotations.keys()
    return frozenset(path for path, keys in MARKS.items() if marks & set(keys))


def keys_of(rule: NodeRemedier) -> tuple[str, ...]:
    """Return the labels that the rule's selection reads, in order."""
    labels: set[str] = set()
    for selector in (rule.spec.nodes.selector, rule.spec.nodes.exclude):
        labels |= _keys(selector)
    return tuple(sorted(labels))


def _keys(selector: LabelSelector | None) -> set[str]:
    if selector is None:
        return set()
    return {*selector.match_labels, *(r.key for r in selector.match_expressions)}


class _Index:
    """Classes of nodes under one set of keys. Putting the same node twice has no further effect."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self._keys = keys
        self._of: dict[str, Class] = {}
        self._classes: dict[Class, Class] = {}
        """One shared object for all nodes of a class."""
        self.counts: Counter[Class] = Counter()
        self.version = 0
        """Changes whenever a count changes."""

    def put(self, name: str, node: Node | None) -> None:
        new = self._class(node) if node is not None else None
        old = self._of.get(name)
        if new == old:
            return
        self.version += 1
        if old is not None:
            del self._of[name]
            self.counts[old] -= 1
            if not self.counts[old]:
                del self.counts[old], self._classes[old]
        if new is not None:
            self._of[name] = self._classes.setdefault(new, new)
            self.counts[new] += 1

    def _class(self, node: Node) -> Class:
        labels = node.metadata.labels
        return tuple(map(labels.get, self._keys)), replace_paths(node)

    def labels(self, values: tuple[str | None, ...]) -> dict[str, str]:
        pairs = zip(self._keys, values, strict=True)
        return {key: value for key, value in pairs if value is not None}


@dataclass(frozen=True, slots=True)
class _Counted:
    """A counted rule. `version`: UID and generation of the rule, and the index with its version."""

    version: tuple[str, int, _Index, int]
    size: Size


class RuleReach:
    """Counts nodes for rules. The `size` of a rule is known after `follow` was called with it."""

    def __init__(self, nodes: Informer[Node], clock: Clock) -> None:
        self._nodes, self._clock = nodes, clock
        self._indexes: dict[tuple[str, ...], _Index] = {}
        self._counted: dict[str, _Counted] = {}
        self._work = 0
        nodes.add_handler(self._changed)

    @property
    def fleet(self) -> int:
        return len(self._nodes.cache)

    def size(self, name: str) -> Size:
        """Return the size of this rule when it was last counted."""
        known = self._counted.get(name)
        return known.size if known is not None else Size()

    async def follow(self, rules: Iterable[NodeRemedier]) -> None:
        """Count `rules`, and no others from now on; yield to the event loop meanwhile."""
        wanted = {}
        for rule in rules:
            wanted[rule.metadata.name] = rule, keys_of(rule)
            await self._turn()
        used = {keys for _, keys in wanted.values()}
        for keys in self._indexes.keys() - used:
            del self._indexes[keys]
        for keys in used - self._indexes.keys():
            await self._build(keys)
        counted = {}
        for name, (rule, keys) in wanted.items():
            index, known = self._indexes[keys], self._counted.get(name)
            version = (rule.metadata.uid, rule.metadata.generation, index, index.version)
            if known is None or known.version != version:
                known = _Counted(version, await self._count(rule, index))
            counted[name] = known
        self._counted = counted

    async def _build(self, keys: tuple[str, ...]) -> None:
        index = self._indexes[keys] = _Index(keys)  # node changes reach it from now on
        for name in list(self._nodes.cache):
            index.put(name, self._nodes.get(name))
            await self._turn()

    async def _count(self, rule: NodeRemedier, index: _Index) -> Size:
        via = _via(rule)
        nodes = replaceable = 0
        for (values, paths), count in list(index.counts.items()):
            if rule.spec.nodes.matches(index.labels(values)):
                nodes += count
                replaceable += count * bool(paths & via)
            await self._turn()
        return Size(nodes, replaceable)

    async def _turn(self) -> None:
        """Yield to the event loop after each TURN pieces of work."""
        self._work += 1
        if self._work % TURN == 0:
            await self._clock.sleep(0)

    def _changed(self, name: str, old: Node | None, new: Node | None) -> None:
        if old is not None and new is not None and _same_marks(old, new):
            return
        for index in self._indexes.values():
            index.put(name, new)


def _same_marks(old: Node, new: Node) -> bool:
    a, b = old.metadata, new.metadata
    return a.labels == b.labels and a.annotations.keys() == b.annotations.keys()


def _via(rule: NodeRemedier) -> frozenset[ReplacePath]:
    """Return the ways that the rule's own replace steps may take; all if it has no such step."""
    steps = (step for rung in rule.spec.ladder or () for step in rung.steps)
    named = [set(step.replace.via) for step in steps if step.replace is not None]
    return frozenset().union(*named) if named else frozenset(ReplacePath)
