"""The built-in facts: names, types and units. The caller that builds a FactSet sets their
values.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

MAINTENANCE_UNTIL = "kubenode.io/maintenance-until"
"""Annotation of a Node: instant until which people work on it."""


@dataclass(frozen=True, slots=True)
class Builtin:
    """A built-in fact. unit: "" if it has none.

    time: how time alone changes it. `still`: not at all. `grows`: by one each second, so that a
        reading tells when a comparison flips. `passes`: at an instant that the value does not show,
        so whoever sets the value must observe it again
    """

    name: str
    type: Literal["boolean", "number", "text"]
    unit: str
    meaning: str
    time: Literal["still", "grows", "passes"] = "still"


_NODE = (
    Builtin("node.age", "number", "seconds", "since the Node object was created", "grows"),
    Builtin("node.sinceBoot", "number", "seconds", "since the host's last known boot", "grows"),
    Builtin("node.ready", "boolean", "", "the Ready condition is True"),
    Builtin(
        "node.notReadyFor",
        "number",
        "seconds",
        "since Ready stopped being True; 0 while it is",
        "grows",
    ),
    Builtin(
        "node.leaseAge", "number", "seconds", "since we saw the kubelet renew its Lease", "passes"
    ),
    Builtin(
        "node.clockOffset",
        "number",
        "seconds",
        "by which the host's clock is ahead of the API server's, by its agent; below 0: behind",
        "passes",
    ),
    Builtin("node.isControlPlane", "boolean", "", "carries the control plane role"),
    Builtin("node.cordonedBy", "text", "", "our job's name, `somebody`, or empty"),
    Builtin("node.foreignOwner", "boolean", "", "an autoscaler or another remediator is at work"),
    Builtin(
        "node.attempts24h", "number", "jobs", "jobs of the last day that acted on it", "passes"
    ),
    Builtin(
        "node.lastRepairAgo",
        "number",
        "seconds",
        "since the last job that acted; infinite: none",
        "grows",
    ),
    Builtin("node.kernel", "text", "", "kernel version"),
    Builtin("node.osImage", "text", "", "operating system image"),
    Builtin("node.runtimeVersion", "text", "", "container runtime and its version"),
    Builtin("node.gpuCount", "number", "devices", "GPUs that the node reports"),
    Builtin(
        "node.unreadConditions",
        "number",
        "conditions",
        "faulty for 30 minutes, and not named in `when` of any rule that selects the node",
        "passes",
    ),
    Builtin(
        "node.unreadWarnings",
        "number",
        "reasons",
        "of Warning Events about the node, three within an hour, that no such rule names",
        "passes",
    ),
)
GROUPS = ("zone", "rack", "pool", "vmHost", "cluster")
CAUSES = ("kernel", "image", "componentRevision")
_GROUP = (
    ("nodes", "nodes in the group"),
    ("unhealthy", "nodes in the group that are not healthy"),
    ("unhealthyRatio", "share of the group that is not healthy, 0 to 1"),
    (
        "sameFault",
        "nodes of the group on which all other leaves of this `when` are true, or became true"
        " `within` a time",
    ),
)
_FLEET = tuple(
    Builtin(f"{scope}.{what}", "number", "" if what == "unhealthyRatio" else "nodes", meaning)
    for scope in GROUPS
    for what, meaning in _GROUP
)
_CAUSE = tuple(
    Builtin(f"{group}.sameFault", "number", "nodes", f"nodes of the same {group} with this fault")
    for group in CAUSES
)
_OTHER = (
    Builtin(
        "maintenance.active",
        "boolean",
        "",
        "a maintenance event or annotation covers the node",
        "passes",
    ),
    Builtin("time.inWindow", "boolean", "", "now is inside `window`", "passes"),
)

BUILTIN = {b.name: b for b in (*_NODE, *_FLEET, *_CAUSE, *_OTHER)}
GROWING = frozenset(b.name for b in BUILTIN.values() if b.time == "grows")
"""Facts that grow by one each second. Two values that differ by the elapsed time are the same
fact.
"""
UNREAD = frozenset({"node.unreadConditions", "node.unreadWarnings"})
"""Facts that a program reads of its own rules: rules.leaves.unread."""
SAME_FAULT = frozenset(name for name in BUILTIN if name.endswith(".sameFault"))
"""Facts that are counted for each rule separately: FactSet.same_fault."""


def near(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence that suggests similar names; "" if there is none."""
    alike = get_close_matches(name, list(known), n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(alike)}?" if alike else ""
