"""Every code of a finding: how severe, why, what to do; docs/reference/lint.md is made of it."""

from dataclasses import dataclass
from enum import StrEnum


class LintSeverity(StrEnum):
    ERROR = "error"
    ADVICE = "advice"


@dataclass(frozen=True, slots=True)
class LintCode:
    name: str
    severity: LintSeverity
    title: str
    why: str
    remedy: str


def _codes(severity: LintSeverity, *rows: tuple[str, str, str, str]) -> tuple[LintCode, ...]:
    return tuple(LintCode(name, severity, title, why, remedy) for name, title, why, remedy in rows)


_OF_FILES = _codes(
    LintSeverity.ERROR,
    (
        "unreadable",
        "The file cannot be read",
        "It is no YAML, or no object that can be checked here.",
        "Mend it at the place that is named.",
    ),
    (
        "invalid",
        "The API server would refuse the object",
        "A field is unknown, missing, or has a value that does not fit.",
        "Each message says what fits; `kubenode rules schema` gives editors the whole schema.",
    ),
    (
        "taken-name",
        "Two objects have one name",
        "The second would replace the first.",
        "Give each its own name.",
    ),
    (
        "uncompilable",
        "The rule does not compile",
        "It names a fact that nobody knows, compares what cannot be compared, rests on itself, or"
        " is too large.",
        "Each message says what to change.",
    ),
)
_ERRORS = _codes(
    LintSeverity.ERROR,
    (
        "beyond-memory",
        "The window is longer than what is remembered",
        "Attempts, repairs and relapses of a node are remembered for 30 days: a longer window would"
        " silently mean 30 days.",
        "Write `720h` or less.",
    ),
    (
        "unproven-repair",
        "Nothing proves this repair",
        "The rung moves pods or takes the node, but the rule can match on Events, alerts, log lines"
        " or a condition that its detector never takes back. Their end is no proof: Events leave"
        " the window by themselves, and a latched condition stays or goes with the detector, not"
        " with the fault. The ladder would climb from a cured node to its replacement, or call a"
        " broken one healed.",
        "Add `verify.cleared` with a probe or a condition that its detector takes back, or"
        " `verify.checks`; or ask for such a condition or probe in the evidence itself.",
    ),
    (
        "no-exit",
        "Isolates the node and says not what then",
        "The rule cordons or empties the node, names no repair and nobody who decides, and leaves"
        " open what happens when the fault stays. Such nodes are forgotten, cordoned, for weeks.",
        "Add a repair or `waitForApproval`, or write `onGiveUp: Hold` (a person decides) or"
        " `Release` (our cordon is taken off).",
    ),
    (
        "unfit-parameters",
        "The agent would refuse the step",
        "`params` of an agent step are checked by the agent, which knows each action's. One that is"
        " unknown, missing or does not fit is refused at the moment when it is needed.",
        "Each message says what fits; docs/repairs.md has every action with its parameters.",
    ),
    (
        "protected-key",
        "The rule sets a protected label or annotation",
        "Keys of Kubernetes, of provisioners and of KubeNode move pods, change load balancers and"
        " say who owns a Node. No permit is asked for a label, so no setting allows them to rules.",
        "Use a key such as `kubenode.io/suspect-NAME`, or one of your own domain that an"
        " administrator lists in `node_keys` of the remedy operator.",
    ),
    (
        "endless-ladder",
        "The last rung cannot end",
        "Its migration waits for pods that are never moved, or that only end by themselves, and"
        " gives its place to others each time it runs out of time (`onTimeout: Yield`). There is no"
        " rung after it, so it begins again for ever.",
        "Write `onTimeout: Escalate` or `Stop`, or let pods that do not end be evicted.",
    ),
    (
        "impossible-proof",
        "The proof takes longer than it is given",
        "The fault must be gone for `verify.for`, and after `verify.timeout` the rung counts as"
        " failed. With the first longer than the second every repair fails, also one that healed.",
        "Give `verify.timeout` more than `verify.for`.",
    ),
    (
        "guard-in-evidence",
        "A guard is taken for evidence",
        "The end of the evidence is the proof of the repair. With a guard in `when`, the guard's"
        " change would heal the node: maintenance begins, and the fault counts as gone.",
        "Move it to `unless`.",
    ),
    (
        "evidence-in-guards",
        "The rule holds itself back",
        "`unless` is true whenever `when` is: the rule can never act.",
        "Take the leaf out of `unless`.",
    ),
)
_ADVICE = _codes(
    LintSeverity.ADVICE,
    (
        "guard-behind-fact",
        "A guard is part of a derived fact that is evidence",
        "The fact turns false when the guard turns, and with it the evidence: the node counts as"
        " healed.",
        "Leave the guard out of the rule that infers the fact, and ask it in `unless`.",
    ),
    (
        "no-guards",
        "The rule has no guards",
        "It acts during maintenance, and on nodes that an autoscaler or another remediator takes"
        " care of.",
        "Add `unless` with `maintenance.active` and `node.foreignOwner`.",
    ),
    (
        "no-hold-time",
        "A condition counts at once",
        "Detectors flap, and kubelets are restarted. Without `for` the first report acts.",
        "Write how long the status must have held, such as `for: 1m`.",
    ),
    (
        "one-event",
        "One Event is enough",
        "A single Event is often an echo, a retry or a line that somebody wrote; it acts when it"
        " is seen, whatever the node is now.",
        "Ask for a `count` within a window, or for a condition or probe beside it.",
    ),
    (
        "stale-evidence",
        "Old reports count for long",
        "With such a `maxAge` a condition whose detector died is believed for that long.",
        "Write a few heartbeats, such as `maxAge: 15m`.",
    ),
    (
        "latched-alone",
        "A condition that is never taken back is the only evidence",
        "Its detector sets it from one log line and leaves it until the detector starts anew: it"
        " says what once was, perhaps days ago.",
        "Ask beside it for what is so now: a probe, or a condition that is taken back.",
    ),
    (
        "polarity",
        "The status looks like the healthy one",
        "Some conditions are healthy when True (Ready, KernelReady), most when False.",
        "Check which one the detector means, and turn the status round.",
    ),
    (
        "unknown-condition",
        "No detector that we know writes this condition",
        "A condition that nobody reports is unknown for ever, and the rule never matches.",
        "Check the spelling; conditions of your own detectors are fine.",
    ),
    (
        "pattern-always",
        "The pattern fits every text",
        "It asks nothing.",
        "Leave it out, or write what must be there.",
    ),
    (
        "pattern-never",
        "The pattern fits no text",
        "The leaf can never be true.",
        "Rewrite it; reasons have neither spaces nor line breaks.",
    ),
    (
        "pattern-unanchored",
        "The pattern of a reason fits within other reasons",
        "Patterns are searched for: `Down` also fits `ShutDownComplete`.",
        "Anchor it: `^(NTPIsDown|KubeletIsDown)$`.",
    ),
    (
        "reason-is-exact",
        "The reason of an Event is compared exactly",
        "An Event's `reason` is no pattern, and no reason has such characters.",
        "Write the reason itself, one leaf for each, or a pattern in `message`.",
    ),
    (
        "no-group-wait",
        "The rule does not wait for a stronger one",
        "Signals of one fault come one after the other. With `groupWait: 0s` the first rule to"
        " match acts, even if one that knows better matches a second later.",
        "Write `groupWait: 10s` or leave it out.",
    ),
    (
        "no-startup-grace",
        "New nodes count as broken",
        "A node that is still starting shows faults that end by themselves.",
        "Leave `startupGrace` at its 5m, or write how long your nodes take.",
    ),
    (
        "many-attempts",
        "The repair may be repeated often",
        "What has not helped a few times does not help, and each time costs pods or capacity.",
        "Write `attempts.max` of 5 or less a day.",
    ),
    (
        "short-cooldown",
        "The next job may begin before this one was proven",
        "With a `cooldown` shorter than `verify.timeout` a rule repairs again while it might still"
        " be waiting for the proof of the last time.",
        "Give `cooldown` at least the longest `verify.timeout` of the ladder.",
    ),
    (
        "window-outlasts-proof",
        "Events stay in the window longer than the proof may take",
        "The repair is proven when the Events have left the window. They cannot within"
        " `verify.timeout`, so a rung that healed may count as failed.",
        "Give `verify.timeout` at least the Events' `within` and `verify.for` together, or prove"
        " it with `verify.cleared`.",
    ),
    (
        "control-plane",
        "Control plane nodes are among those that it may take",
        "A repair that empties or boots a control plane node may cost the quorum of etcd.",
        "Exclude `node-role.kubernetes.io/control-plane`, or name them in a rule of their own.",
    ),
    (
        "no-fault-class",
        "The fault has no name",
        "Relapses, statistics and Kube Defender's queue tell faults apart by `faultClass`.",
        "Write one, such as `kernel_deadlock`.",
    ),
    (
        "duplicate",
        "Two rules ask for the same evidence at one priority",
        "Which of them acts is decided by their names.",
        "Delete one, or give them different priorities.",
    ),
    (
        "shadowed",
        "Another rule always comes first",
        "It matches whenever this rule does, means the same nodes and has a higher priority: this"
        " rule is never chosen. A rule that asks for more than another should come before it.",
        "Give it a higher priority, or delete it.",
    ),
    (
        "window-as-guard",
        "A guard under not says when the rule may act",
        "A guard is evaluated before each disruptive step, so it also stops a rung that has begun"
        " when the window closes, and nobody sees until when the rule waits.",
        "Write `window` on the rule, or on the rung.",
    ),
    (
        "notice-per-node",
        "The rule notifies once for each node of a group",
        "The evidence counts nodes of a group and the ladder only notifies: each of the nodes gets"
        " a job and a notification of its own.",
        "Write `once` with the group, such as `once: {per: Rack}`.",
    ),
    (
        "unlisted-key",
        "The rule sets a label or annotation that is not listed by default",
        "The remedy operator refuses keys that are not in its settings `node_keys` and"
        " `disruptive_node_keys`. The default allows `kubenode.io/suspect` and"
        " `kubenode.io/suspect-*`. The settings of your operator are not known here.",
        "Use a listed key, or let an administrator list this one.",
    ),
    (
        "unlisted-unit",
        "The agent refuses this unit by default",
        "An agent touches only the units that its configuration lists (`repairs.units`, and for"
        " StopUnit `repairs.stop_units`). The configuration of your hosts is not known here.",
        "Use a unit of the default list in docs/repairs.md, or list this one on the hosts.",
    ),
    (
        "unavailable",
        "This version cannot do all steps of the ladder",
        "In Enforce and Approve the operator refuses such a rule, and says so in its status. In"
        " DryRun, where no step is taken, it is loaded.",
        "Leave the step out, or wait for a version that has it.",
    ),
)

CODES = {code.name: code for code in (*_OF_FILES, *_ERRORS, *_ADVICE)}
"""By name. The first four are found in files, the others by `lint`."""
