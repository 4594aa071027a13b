"""How many nodes a rule may match before its author has to confirm it. Pure."""

from kubenode.api.share import share_of
from kubenode.api.v1alpha1 import Disruption, Mode, NodeRemedier
from kubenode.api.v1alpha1.ladder import list_steps

ACCEPT = "kubenode.io/accept-blast-radius"
"""Annotation of a NodeRemedier: the most nodes that it may match when it is written."""
AUTHOR = "kubenode.io/author"
"""Annotation of a NodeRemedier: who last changed its spec, apart from the mode; set by
admission.
"""
ACCEPTED_BY = "kubenode.io/accepted-by"
"""Annotation of a NodeRemedier: who set ACCEPT; set by admission."""
MOST_MATCHING = "10%"
"""Default share of the fleet, at least one node. It is low on purpose: on a healthy fleet a good
rule matches nothing, and a tenth of a fleet with one fault is an incident that people should check.
"""

LEAST_AT_ONCE = 3
"""Nodes that a rule may mark at once in a fleet of any size: few enough for a person to check one
by one.
"""
MARKS = list_steps(lambda kind: kind.signals)
"""Steps without a permit that make other programs act on a node."""


def acts(rule: NodeRemedier) -> bool:
    """Report whether the rule creates jobs, of any class: a label or a notification for each node
    of a fleet does harm too.
    """
    return bool(rule.spec.ladder)


def accepted_nodes(rule: NodeRemedier) -> int | str | None:
    """Return the number of nodes that the author accepts, the text itself if it is no number, None
    if absent.
    """
    text = rule.metadata.annotations.get(ACCEPT)
    if text is None:
        return None
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else text


def acceptance(rule: NodeRemedier) -> str:
    """Return who accepts how many nodes, as a sentence; only for a rule with a valid number."""
    who = rule.metadata.annotations.get(ACCEPTED_BY) or "somebody"
    return f"{who} accepted with {ACCEPT}: {accepted_nodes(rule)}"


def limit_of(fleet: int, most: int | str = MOST_MATCHING) -> int:
    """Return how many nodes of `fleet` any rule may match; at least one."""
    return max(share_of(most, fleet), 1)


def limit_for(rule: NodeRemedier, fleet: int, most: int | str = MOST_MATCHING) -> int:
    """Return how many nodes this rule may match: the general limit, or the number its author
    accepts if larger.
    """
    limit, accepted = limit_of(fleet, most), accepted_nodes(rule)
    return max(limit, accepted) if isinstance(accepted, int) else limit


def marks_alone(rule: NodeRemedier) -> bool:
    """Report whether the rule marks nodes in Enforce without a permit, so that Kube Defender does
    not count them: a rung of class None has a step of MARKS. A notification does not count: in an
    incident people are notified about every node.
    """
    if rule.spec.mode is not Mode.ENFORCE:
        return False
    rungs = (r for r in rule.spec.ladder or () if r.disruption_class is Disruption.NONE)
    return any(step.name in MARKS for rung in rungs for step in rung.steps)


def most_at_once(rule: NodeRemedier, fleet: int, most: int | str = MOST_MATCHING) -> int:
    """Return how many nodes may match a rule that `marks_alone` when it starts a job."""
    return max(limit_for(rule, fleet, most), LEAST_AT_ONCE)
