"""Rules with `once`: which job acts for a group of nodes, so that other nodes of it get none.

A job covers the other nodes of its group while it is open. A closed one covers them for
`once.within` of its creation, if it did what its rule is for and the fault of a node began before
the fault on the job's own node ended: a fault that begins later is a new incident of the group.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from kubenode.api.names import list_first
from kubenode.api.v1alpha1 import Mode, NodeRemedier
from kubenode.api.v1alpha1.noderemedier import OncePerGroup, Scope
from kubenode.api.v1alpha1.remedyoperationjob import JobGroup
from remedy.job.model import CloseReason
from remedy.remedier.decide import Candidate
from remedy.remedier.fleet import Group, NodeGroups
from remedy.remedier.inference import GROUP_OF
from remedy.remedier.past import Past

MOST_NAMED = 8
"""Most nodes of a group that a message names."""


def covers(past: Past, once: OncePerGroup, since: datetime, now: datetime) -> bool:
    """Report whether a job of the rule on another node of the group covers a node.

    since: when the fault of the node began
    """
    if past.open:
        return True
    did = past.shadow or past.reason is CloseReason.PROVEN
    if not did and (past.reason is None or not past.reason.outlasts_the_job):
        return False
    ended = past.closed if past.reason is CloseReason.PROVEN else past.false_since
    return now < past.created + once.within and (ended is None or since <= ended)


def describe_group(group: JobGroup, nodes: Sequence[str]) -> str:
    """Return a group and its nodes as text, such as `rack r7: 3 nodes: a, b, c`."""
    place = f"{GROUP_OF[group.scope]} {group.name}".rstrip()
    count = f"{len(nodes)} node" + ("" if len(nodes) == 1 else "s")
    return f"{place}: {count}: {list_first(nodes, MOST_NAMED)}"


class GroupJobs:
    """Finds the job that acts for a node's group.

    past: returns the jobs of a node, as for remedy.remedier.decide
    nodes_of: returns the nodes with jobs of a rule, by the rule's name
    """

    def __init__(
        self,
        fleet: NodeGroups,
        past: Callable[[str], Sequence[Past]],
        nodes_of: Callable[[str], Iterable[str]],
    ) -> None:
        self._fleet, self._past, self._nodes_of = fleet, past, nodes_of
        self._claims: dict[tuple[str, Group], str] = {}
        """Nodes whose job is being created, by rule and group."""
        self._dry_runs: dict[str, set[str]] = {}
        """Nodes for which a rule in DryRun would have acted since our start, by rule."""

    def group(self, node: str, rule: NodeRemedier) -> JobGroup | None:
        """Return the group that a job of the rule on the node is for; None: the node alone."""
        once = rule.spec.once
        group = self._group(node, once) if once is not None else None
        return JobGroup(scope=once.per, name=group[1]) if once is not None and group else None

    def cover(self, node: str, candidate: Candidate, now: datetime) -> str:
        """Return the job that covers the node, as text; "" for none."""
        once = candidate.rule.spec.once
        group = self._group(node, once) if once is not None else None
        if once is None or group is None:
            return ""
        place, name = f"{group[0]} {group[1]}".rstrip(), candidate.name
        if self._claims.get((name, group), node) != node:
            return f"the job of {place} on node {self._claims[name, group]}"
        others = {*self._nodes_of(name), *self._dry_runs.get(name, ())} - {node}
        dry = candidate.rule.spec.mode is Mode.DRY_RUN
        for other in sorted(n for n in others if group in self._fleet.groups(n)):
            for past in self._past(other):
                mine = past.remedier == name and past.shadow is dry
                if mine and covers(past, once, candidate.since, now):
                    return f"{past.name or 'the dry run'} of {place} on node {other}"
        return ""

    @contextmanager
    def claim(self, node: str, rule: NodeRemedier) -> Iterator[None]:
        """Cover the other nodes of the group while a job is being created."""
        group = self._group(node, rule.spec.once) if rule.spec.once is not None else None
        if group is None:
            yield
            return
        key = rule.metadata.name, group
        self._claims[key] = node
        try:
            yield
        finally:
            self._claims.pop(key, None)

    def add_dry_run(self, node: str, rule: NodeRemedier) -> None:
        """Record that a rule in DryRun would have acted on the node."""
        if rule.spec.once is not None:
            self._dry_runs.setdefault(rule.metadata.name, set()).add(node)

    def nodes(self, group: JobGroup, matching: Iterable[str]) -> list[str]:
        """Return those of the matching nodes that are in the group, in order of their names."""
        key = GROUP_OF[group.scope], group.name
        return sorted(node for node in matching if key in self._fleet.groups(node))

    def _group(self, node: str, once: OncePerGroup) -> Group | None:
        scope = GROUP_OF[Scope(once.per)]
        return next((g for g in self._fleet.groups(node) if g[0] == scope), None)
