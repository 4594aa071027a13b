"""How many nodes each rule selects: counted by the labels that selectors ask for.

Nodes with the same values of those labels are one class, counted once for all rules that ask for
the same keys. A change of a node moves it from one class to another; 100 rules over 10,000 nodes
are then a few classes each, not a million comparisons.
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
"""Rules, nodes or classes looked at before the loop has its turn."""
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
"""Labels and annotations by which a node says who would make another one in its place."""
Paths = frozenset[ReplacePath]
Class = tuple[tuple[str | None, ...], Paths]
"""Values of the labels asked for, None for an absent one; and ways to replace the node."""


@dataclass(frozen=True, slots=True)
class Size:
    nodes: int = 0
    with_replace_path: int = 0


def replace_paths(node: Node) -> Paths:
    marks = node.metadata.labels.keys() | node.metadata.annotations.keys()
    return frozenset(path for path, keys in MARKS.items() if marks & set(keys))


def keys_of(rule: NodeRemedier) -> tuple[str, ...]:
    """The labels that its selection reads, in order."""
    found: set[str] = set()
    for selector in (rule.spec.nodes.selector, rule.spec.nodes.exclude):
        found |= _keys(selector)
    return tuple(sorted(found))


def _keys(selector: LabelSelector | None) -> set[str]:
    if selector is None:
        return set()
    return {*selector.match_labels, *(r.key for r in selector.match_expressions)}


class _Index:
    """The classes of nodes under one set of keys. Putting a node twice is putting it once."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self._keys = keys
        self._of: dict[str, Class] = {}
        self._classes: dict[Class, Class] = {}
        """One object for all nodes of a class."""
        self.counts: Counter[Class] = Counter()
        self.version = 0
        """Another one whenever some count is."""

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
    """version  of the rule, and of the index that was counted from"""

    version: tuple[str, int, _Index, int]
    size: Size


class RuleReach:
    """`size` of a rule is known after `follow` has been given it."""

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
        """Of the rule called so, as it was when it was last followed."""
        known = self._counted.get(name)
        return known.size if known is not None else Size()

    async def follow(self, rules: Iterable[NodeRemedier]) -> None:
        """Count `rules`, and no others from now on; the loop has its turns meanwhile."""
        wanted = {}
        for rule in rules:
            wanted[rule.metadata.name] = rule, keys_of(rule)
            await self._turn()
        used = {keys for _, keys in wanted.values()}
        for keys in self._indexes.keys() - used:
            del self._indexes[keys]
        for keys in used - self._indexes.keys():
            await self._build(keys)
        found = {}
        for name, (rule, keys) in wanted.items():
            index, known = self._indexes[keys], self._counted.get(name)
            version = (rule.metadata.uid, rule.metadata.generation, index, index.version)
            if known is None or known.version != version:
                known = _Counted(version, await self._count(rule, index))
            found[name] = known
        self._counted = found

    async def _build(self, keys: tuple[str, ...]) -> None:
        index = self._indexes[keys] = _Index(keys)  # changes of nodes reach it from now on
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
        """Called after each small piece of work."""
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
    """The ways that the rule's own replace steps may take; all where it has none."""
    steps = (step for rung in rule.spec.ladder or () for step in rung.steps)
    named = [set(step.replace.via) for step in steps if step.replace is not None]
    return frozenset().union(*named) if named else frozenset(ReplacePath)
