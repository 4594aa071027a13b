"""Reads what a node reports and no rule of the program reads: `node.unreadConditions` and
`node.unreadWarnings`.

A report counts as read if a rule that selects the node names its type or reason as evidence. The
facts are for rules that notify people: nothing is known of such a report but that it lasts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from kubenode.api.meta import NodeSelection
from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.api.v1alpha1.hostevent import HostEventClass
from kubenode.api.v1alpha1.leaves import ConditionLeaf, EventLeaf, FactLeaf
from rules.facts import ConditionFact, EventFact, FactSet
from rules.leaves.compare import compares
from rules.leaves.condition import condition
from rules.leaves.describe import subject
from rules.leaves.event import event
from rules.leaves.pattern import finds_pattern
from rules.leaves.result import LeafReading, earliest
from rules.polarity import faulty_status
from rules.truth import Truth

CONDITIONS, WARNINGS = "node.unreadConditions", "node.unreadWarnings"
LASTS = timedelta(minutes=30)
"""Least time for which an unread condition has its faulty status."""
AGE = timedelta(days=30)
"""Many controllers write a condition only when it changes, so its last report may be old."""
REPEATS, WITHIN = 3, timedelta(hours=1)
"""Least occurrences of an unread Warning, and the window in which they are counted."""
MOST_NAMED = 3
"""Reports that a finding names."""
PLANNED_BY = frozenset(
    {
        "aws-node-termination-handler",
        "cluster-autoscaler",
        "controllermanager",
        "draino",
        "karpenter",
        "kured",
        "machineconfigdaemon",
        "node-controller",
        "node-lifecycle-controller",
        "taint-eviction-controller",
    }
)
"""Components that report their own work on nodes, such as a drain that waits. They retry it
themselves; KubeNode has facts of its own about silent nodes.
"""
OUR_COMPONENTS = "kubenode"
BENIGN = frozenset(
    {
        "CgroupV1",
        "CheckLimitsForResolvConf",
        "DNSConfigForming",
        "InvalidDiskCapacity",
        "NodeNotReady",
        "NodeShutdown",
        "PossibleMemoryBackedVolumesOnDisk",
        "Rebooted",
        "Shutdown",
        # The agent's and vendors' reports that are listed with a reason in not-by-a-rule.yaml.
        "APIConnectionStuck",
        "APIServerNotReached",
        "CNINotReady",
        "CgroupOOMKilling",
        "ContainerRuntimeIsDown",
        "DeprecatedContainerdConfiguration",
        "FilesystemCorruptionDetected",
        "FreezeScheduled",
        "LargeEnvironment",
        "LivenessProbeFailures",
        "LogLineNotUnderstood",
        "NTPIsDown",
        "NetworkLinkDown",
        "NvidiaSXid",
        "PidsLimitReached",
        "PodStuckTerminating",
        "RapidCron",
        "ReadinessProbeFailures",
    }
)
"""Reasons of Warnings that are no fault of a node: starts, boots and advice of the kubelet
(pkg/kubelet of Kubernetes 1.31 to 1.37), and reports that are answered otherwise.
"""

_CLASSES = frozenset(HostEventClass)
"""Reasons of HostEvents, which a node has as Events too."""

Selections = tuple[NodeSelection, ...]


@dataclass(frozen=True, slots=True, eq=False)
class EvidenceIndex:
    """What rules name as evidence, with the nodes that they select.

    conditions: by type and status
    reasons: by reason of Events
    leaves: Event leaves without a reason
    """

    conditions: Mapping[tuple[str, str], Selections] = field(default_factory=dict)
    reasons: Mapping[str, Selections] = field(default_factory=dict)
    leaves: tuple[tuple[EventLeaf, NodeSelection], ...] = ()

    def reads_condition(self, fact: ConditionFact, labels: dict[str, str]) -> bool:
        return _selects(self.conditions.get((fact.type, fact.status), ()), labels)

    def reads_event(self, fact: EventFact, labels: dict[str, str]) -> bool:
        return _selects(self.reasons.get(fact.reason, ()), labels) or any(
            leaf.source in (None, fact.source)
            and finds_pattern(leaf.message, fact.message)
            and nodes.matches(labels)
            for leaf, nodes in self.leaves
        )


def _selects(selections: Selections, labels: dict[str, str]) -> bool:
    return any(nodes.matches(labels) for nodes in selections)


def index_evidence(rules: Iterable[NodeRemedier]) -> EvidenceIndex:
    conditions: dict[tuple[str, str], Selections] = {}
    reasons: dict[str, Selections] = {}
    leaves: list[tuple[EventLeaf, NodeSelection]] = []
    for rule in rules:
        nodes = rule.spec.nodes
        for leaf in rule.spec.when.leaves():
            if isinstance(leaf, ConditionLeaf):
                key = leaf.type, str(leaf.status)
                conditions[key] = (*conditions.get(key, ()), nodes)
            elif isinstance(leaf, EventLeaf) and leaf.reason is not None:
                reasons[leaf.reason] = (*reasons.get(leaf.reason, ()), nodes)
            elif isinstance(leaf, EventLeaf):
                leaves.append((leaf, nodes))
    return EvidenceIndex(conditions, reasons, tuple(leaves))


@dataclass(frozen=True, slots=True)
class UnreadReports:
    """A leaf that counts the reports of a node that no rule reads."""

    leaf: FactLeaf
    evidence: EvidenceIndex


def unread(atom: UnreadReports, facts: FactSet, now: datetime) -> LeafReading:
    """Count unread reports. Reports that are unknown leave the answer open that they would change.

    flips_at: when one of them begins or ceases to count
    """
    of_conditions = atom.leaf.name == CONDITIONS
    named = dict((_conditions if of_conditions else _warnings)(atom.evidence, facts, now))
    true = sorted(name for name, reading in named.items() if reading.truth is Truth.TRUE)
    open_ = sum(reading.truth is Truth.UNKNOWN for reading in named.values())
    truth, most = compares(atom.leaf, len(true)), compares(atom.leaf, len(true) + open_)
    flips_at = earliest(*(reading.flips_at for reading in named.values()))
    says = f"are {', '.join(true[:MOST_NAMED])}" if true else "are none"
    source = "Node condition" if of_conditions else "Event"
    return LeafReading(
        truth if truth is most else Truth.UNKNOWN,
        subject(atom.leaf),
        says + (f" and {len(true) - MOST_NAMED} more" if len(true) > MOST_NAMED else ""),
        len(true),
        source if named else "",
        flips_at=flips_at,
    )


def _conditions(
    evidence: EvidenceIndex, facts: FactSet, now: datetime
) -> Iterator[tuple[str, LeafReading]]:
    labels = dict(facts.labels)
    for fact in facts.conditions.values():
        if fact.status != faulty_status(fact.type) or evidence.reads_condition(fact, labels):
            continue
        leaf = ConditionLeaf.model_validate(
            {"type": fact.type, "status": fact.status, "for": LASTS, "maxAge": AGE}
        )
        yield f"{fact.type}={fact.status} ({fact.reason})", condition(leaf, facts, now)


def _warnings(
    evidence: EvidenceIndex, facts: FactSet, now: datetime
) -> Iterator[tuple[str, LeafReading]]:
    candidates = _candidates(evidence, facts)
    only = replace(facts, events=candidates)
    for reason in dict.fromkeys(fact.reason for fact in candidates):
        leaf = EventLeaf(reason=reason, count=REPEATS, within=WITHIN)
        yield reason, event(leaf, only, now)


def _candidates(evidence: EvidenceIndex, facts: FactSet) -> Sequence[EventFact]:
    """Return the unread Warnings about the node itself, without those of its conditions."""
    labels = dict(facts.labels)
    of_conditions = {fact.reason for fact in facts.conditions.values()}
    return [
        fact
        for fact in facts.events
        if counts(fact)
        and fact.reason not in of_conditions
        and not evidence.reads_event(fact, labels)
    ]


def counts(fact: EventFact) -> bool:
    """Return whether an Event may be an unread Warning about the node itself."""
    planned = fact.source in PLANNED_BY or fact.source.startswith(OUR_COMPONENTS)
    return (
        fact.severity == "Warning"
        and bool(fact.reason)
        and fact.reason not in BENIGN
        and fact.reason not in _CLASSES
        and not (fact.about_pod or fact.forgotten or planned)
    )
