"""Messages for people: why a matching rule does not act now. Pure."""

from collections.abc import Mapping

from kubenode.api.meta import format_time
from kubenode.api.waits import WAITS
from remedy.registry.radius import ACCEPT
from remedy.remedier.decide import RuleWait, WaitReason

SENTENCES: Mapping[WaitReason, str] = {
    WaitReason.OPEN_JOB: "the node has an open job, and it has one at a time",
    WaitReason.GUARD: WAITS["GuardTrue"],
    WaitReason.PROBE: "a guard is not known yet: the host is asked, a source is read again, or not"
    " every node was looked at since the operator's start",
    WaitReason.DISAGREE: WAITS["EnginesDisagree"],
    WaitReason.STARTUP: WAITS["StartupGrace"],
    WaitReason.COOLDOWN: WAITS["Cooldown"],
    WaitReason.ATTEMPTS: "its jobs have acted on the node as often as `attempts` allows: look at"
    " the node",
    WaitReason.INCIDENT: "the incident was ended by a person, given up or healed: no other job"
    " follows while it lasts",
    WaitReason.GROUP_WAIT: WAITS["GroupWait"],
    WaitReason.BLAST_RADIUS: "the rule acts without a permit, and more nodes match than it may mark"
    " at once: no further node is marked before fewer match or a person accepts it with annotation"
    f" {ACCEPT}",
    WaitReason.COVERED: "a job of the rule acts for all nodes of the group (once)",
    WaitReason.WINDOW: "the window of the rule is closed",
    WaitReason.STALE: "what is known of the node is out of date",
}
TIMED = frozenset(
    {
        WaitReason.STARTUP,
        WaitReason.GROUP_WAIT,
        WaitReason.COOLDOWN,
        WaitReason.ATTEMPTS,
        WaitReason.WINDOW,
    }
)
"""Waits with a known end; the others are only considered again."""


def sentence(waiting: RuleWait) -> str:
    """Return a sentence such as `GroupWait until 2026-01-05T12:00:10Z: it waits a
    moment for ...`.
    """
    timed = waiting.until is not None and waiting.why in TIMED
    until = f" until {format_time(waiting.until)}" if timed and waiting.until else ""
    job = f": {waiting.job}" if waiting.job else ""
    return f"{waiting.why}{until}: {SENTENCES[waiting.why]}{job}"
