"""For each code of lint a rule that must have it, and near misses that must not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubenode.api.v1alpha1 import NodeRemedier

Spec = dict[str, Any]
RESTART = {"agent": {"action": "RestartUnit", "unit": "kubelet.service"}}
EMPTY: list[dict[str, Any]] = [{"cordon": {}}, {"migrate": {}}]
GUARDS = {"any": [{"fact": {"name": "maintenance.active"}}]}
LIVE = {"condition": {"type": "KubeletUnhealthy", "for": "1m"}}
LATCHED = {"condition": {"type": "KernelDeadlock", "for": "1m"}}
OOPS = {"event": {"reason": "KernelOops", "count": 3}}
WORKERS = {
    "all": True,
    "exclude": {
        "matchExpressions": [
            {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}
        ]
    },
}  # fmt: skip


def named(name: str, **changes: Any) -> NodeRemedier:
    """A rule that lint has nothing to say of, with changes; a field that is None is left out."""
    spec: Spec = {
        "mode": "Enforce",
        "faultClass": "some_fault",
        "nodes": WORKERS,
        "when": LIVE,
        "unless": GUARDS,
        "onGiveUp": "Hold",
        "ladder": [a_rung(RESTART)],
    }
    spec = {key: value for key, value in (spec | changes).items() if value is not None}
    return NodeRemedier.from_user({"metadata": {"name": name}, "spec": spec})


def a_rung(*steps: Mapping[str, Any], name: str = "rung", **verify: Any) -> dict[str, Any]:
    return {"name": name, "steps": list(steps), "verify": verify}


def ladder(*steps: Mapping[str, Any], **verify: Any) -> list[dict[str, Any]]:
    return [a_rung(*steps, **verify)]


def leaf(kind: str, **fields: Any) -> dict[str, Any]:
    return {kind: fields}


def inferring(name: str, fact: str, when: Mapping[str, Any]) -> NodeRemedier:
    return named(
        name, when=when, infer={"fact": fact}, ladder=None, unless=None, onGiveUp=None
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """`changes` make the code appear at `path`; none of `misses` does, anywhere."""

    code: str
    path: str
    changes: Spec
    misses: Sequence[Spec]
    beside: Sequence[NodeRemedier] = ()


WITH_CHECK = {"checks": [{"agent": {"action": "RunCheck", "check": "d-state-tasks"}}]}
NEVER = {"podPolicies": [{"mode": "Never"}]}
SOME_NEVER = {"podPolicies": [{"mode": "Never", "namespaces": ["db"]}]}
ALL_WAIT = {"podPolicies": [{"mode": "WaitForCompletion"}]}
FACT = {"fact": {"name": "my.fact"}}
DEADLOCKED = leaf("condition", type="KernelDeadlock", **{"for": "1m"})

IN_WINDOW = {"fact": {"name": "time.inWindow", "window": {"from": "22:00", "to": "04:00"}}}
MANY = {"all": [LIVE, {"fact": {"name": "rack.sameFault", "above": 2}}]}
FEW = {"all": [LIVE, {"fact": {"name": "rack.sameFault", "below": 3}}]}

CASES = (
    Case(
        "unfit-parameters",
        "spec.ladder[0].steps[1].agent.params",
        {"ladder": ladder(RESTART, {"agent": {"action": "CleanDisk", "params": {"target": "x"}}})},
        (
            {"ladder": ladder({"agent": {"action": "CleanDisk", "params": {"target": "logs"}}})},
            {
                "ladder": ladder(
                    {"agent": {"action": "RunScript", "script": "s", "params": {"a": "b"}}}
                )
            },
        ),
    ),
    Case(
        "protected-key",
        "spec.ladder[0].steps[1].label.key",
        {"ladder": ladder(RESTART, {"label": {"key": "kubernetes.io/os", "value": "x"}})},
        ({"ladder": ladder(RESTART, {"label": {"key": "kubenode.io/suspect-disk"}})},),
    ),
    Case(
        "unlisted-key",
        "spec.ladder[0].steps[0].annotate.key",
        {"ladder": ladder({"annotate": {"key": "example.com/pool"}}, RESTART)},
        ({"ladder": ladder({"annotate": {"key": "kubenode.io/suspect"}}, RESTART)},),
    ),
    Case(
        "unlisted-unit",
        "spec.ladder[0].steps[0].agent.unit",
        {"ladder": ladder({"agent": {"action": "StopUnit", "unit": "auditd.service"}}, RESTART)},
        ({"ladder": ladder({"agent": {"action": "StopUnit", "unit": "kubelet.service"}})},),
    ),
    Case(
        "unproven-repair",
        "spec.ladder[0]",
        {"when": {"all": [LATCHED, OOPS]}, "ladder": ladder(*EMPTY, {"reboot": {}})},
        (
            {"when": {"all": [LATCHED, LIVE]}, "ladder": ladder(*EMPTY)},
            {"when": LATCHED, "ladder": ladder(*EMPTY, **WITH_CHECK)},
            {"when": LATCHED, "ladder": ladder(*EMPTY, cleared=leaf("condition", type="Ready"))},
            {"when": LATCHED, "ladder": ladder(RESTART)},
            {"when": leaf("hostEvent", **{"class": "Reboot"}), "ladder": ladder(*EMPTY)},
            {"when": {"not": leaf("condition", type="Ready")}, "ladder": ladder(*EMPTY)},
        ),
    ),
    Case(
        "unproven-repair",
        "spec.ladder[1]",
        {"when": {"any": [LIVE, OOPS]}, "ladder": [a_rung(RESTART), a_rung(*EMPTY, name="out")]},
        ({"when": {"any": [LIVE, leaf("taint", key="sick")]}, "ladder": ladder(*EMPTY)},),
    ),
    Case(
        "unproven-repair",
        "spec.ladder[0]",
        {"when": leaf("alert", name="NodeDown"), "ladder": ladder({"cordon": {}})},
        (
            {
                "when": {
                    "all": [
                        leaf("alert", name="NodeDown"),
                        leaf("probe", name="peers.reachable", **{"is": False}),
                    ]
                },
                "ladder": ladder({"cordon": {}}),
            },
        ),
    ),
    Case(
        "unproven-repair",
        "spec.ladder[0]",
        {"when": FACT, "ladder": ladder(*EMPTY)},
        ({"when": {"all": [FACT, LIVE]}, "ladder": ladder(*EMPTY)},),
        (inferring("infers", "my.fact", OOPS),),
    ),
    Case(
        "unproven-repair",
        "spec.ladder[0]",
        {
            "when": LATCHED,
            "ladder": ladder(*EMPTY, cleared=leaf("absent", event={"reason": "Oops"})),
        },
        (
            {
                "when": LATCHED,
                "ladder": ladder(
                    *EMPTY, cleared=leaf("probe", name="host.d_state_process", **{"is": False})
                ),
            },
        ),
    ),
    Case(
        "no-exit",
        "spec.ladder",
        {"onGiveUp": None, "ladder": ladder(*EMPTY, {"notify": {}})},
        (
            {"ladder": ladder(*EMPTY, {"notify": {}})},
            {"onGiveUp": None, "ladder": ladder(*EMPTY, {"reboot": {}})},
            {"onGiveUp": None, "ladder": ladder(*EMPTY, {"waitForApproval": {}})},
            {"onGiveUp": None, "mode": "Approve", "ladder": ladder(*EMPTY)},
            {"onGiveUp": None, "ladder": ladder(*EMPTY, **WITH_CHECK)},
            {"onGiveUp": None, "ladder": [a_rung(*EMPTY), a_rung(RESTART, name="restart")]},
            {"onGiveUp": None, "ladder": ladder({"notify": {}})},
        ),
    ),
    Case(
        "endless-ladder",
        "spec.ladder[0].steps[0].migrate",
        {"ladder": ladder({"migrate": NEVER})},
        (
            {"ladder": ladder({"migrate": NEVER | {"onTimeout": "Escalate"}})},
            {"ladder": ladder({"migrate": SOME_NEVER})},
            {"ladder": [a_rung({"migrate": ALL_WAIT}), a_rung(RESTART, name="restart")]},
            {"ladder": ladder({"migrate": {}})},
        ),
    ),
    Case(
        "endless-ladder",
        "spec.ladder[0].steps[0].migrate",
        {"ladder": ladder({"migrate": ALL_WAIT})},
        ({"ladder": ladder({"migrate": ALL_WAIT | {"onTimeout": "Stop"}})},),
    ),
    Case(
        "impossible-proof",
        "spec.ladder[0].verify",
        {"ladder": ladder(RESTART, **{"for": "16m", "timeout": "15m"})},
        ({"ladder": ladder(RESTART, **{"for": "15m", "timeout": "15m"})},),
    ),
    Case(
        "guard-in-evidence",
        "spec.when.all[1].not.fact",
        {"when": {"all": [LIVE, {"not": leaf("fact", name="maintenance.active")}]}},
        (
            {"when": {"all": [LIVE, leaf("fact", name="node.age", above=600.0)]}},
            {"unless": {"any": [leaf("fact", name="zone.unhealthyRatio", above=0.4)]}},
        ),
    ),
    Case(
        "guard-in-evidence",
        "spec.when.all[1].fact",
        {"when": {"all": [LIVE, leaf("fact", name="zone.unhealthyRatio", below=0.4)]}},
        ({"when": {"all": [LIVE, leaf("fact", name="zone.sameFault", below=3.0)]}},),
    ),
    Case(
        "guard-in-evidence",
        "spec.ladder[0].verify.cleared.not.fact",
        {"ladder": ladder(RESTART, cleared={"not": leaf("fact", name="node.foreignOwner")})},
        ({"ladder": ladder(RESTART, cleared=leaf("fact", name="node.ready"))},),
    ),
    Case(
        "polarity",
        "spec.ladder[0].verify.cleared.condition.status",
        {"ladder": ladder(RESTART, cleared=leaf("condition", type="KubeletUnhealthy"))},
        (
            {"ladder": ladder(RESTART, cleared=leaf("condition", type="Ready"))},
            {"ladder": ladder(RESTART, cleared={"not": LIVE})},
            {
                "ladder": ladder(
                    RESTART, cleared=leaf("condition", type="DiskPressure", status="False")
                )
            },
        ),
    ),
    Case(
        "unknown-condition",
        "spec.ladder[0].verify.cleared.condition.type",
        {"ladder": ladder(RESTART, cleared=leaf("condition", type="Redy"))},
        (),
    ),
    Case(
        "evidence-in-guards",
        "spec.unless.any[0].condition",
        {"when": {"all": [LIVE, OOPS]}, "unless": {"any": [LIVE]}},
        (
            {"when": {"any": [LIVE, OOPS]}, "unless": {"any": [LIVE]}},
            {"when": {"all": [LIVE, OOPS]}, "unless": {"all": [LIVE, FACT]}},
            {"unless": {"any": [{"not": LIVE}]}},
        ),
    ),
    Case(
        "guard-behind-fact",
        "spec.when.all[1].fact",
        {"when": {"all": [LIVE, FACT]}},
        ({"unless": {"any": [FACT]}},),
        (
            inferring(
                "infers",
                "my.fact",
                {"all": [OOPS, {"not": leaf("fact", name="maintenance.active")}]},
            ),
        ),
    ),
    Case(
        "no-guards",
        "spec",
        {"unless": None},
        ({}, {"unless": None, "ladder": ladder({"notify": {}})}),
    ),
    Case(
        "no-hold-time",
        "spec.when.condition",
        {"when": leaf("condition", type="KubeletUnhealthy")},
        (
            {"when": leaf("condition", type="KubeletUnhealthy"), "ladder": ladder({"notify": {}})},
            {"when": {"all": [LIVE, {"not": leaf("condition", type="DiskPressure")}]}},
        ),
    ),
    Case(
        "one-event",
        "spec.when.event",
        {"when": leaf("event", reason="KernelOops")},
        (
            {"when": leaf("event", reason="KernelOops", count=2)},
            {"when": {"all": [LIVE, leaf("event", reason="KernelOops")]}},
            {"when": leaf("event", reason="KernelOops"), "ladder": ladder({"notify": {}})},
        ),
    ),
    Case(
        "stale-evidence",
        "spec.when.condition.maxAge",
        {"when": leaf("condition", type="KubeletUnhealthy", maxAge="24h", **{"for": "1m"})},
        ({"when": leaf("condition", type="KubeletUnhealthy", maxAge="1h", **{"for": "1m"})},),
    ),
    Case(
        "latched-alone",
        "spec.when.any[1].condition",
        {"when": {"any": [LIVE, LATCHED]}},
        ({"when": {"all": [LIVE, LATCHED]}}, {"when": LATCHED, "ladder": ladder({"notify": {}})}),
    ),
    Case(
        "polarity",
        "spec.when.condition.status",
        {"when": leaf("condition", type="KernelReady", status="True")},
        (
            {"when": leaf("condition", type="KernelReady", status="False")},
            {"when": leaf("condition", type="Ready", status="Unknown")},
            {"when": {"not": leaf("condition", type="Ready", status="True")}},
            {"when": {"all": [OOPS, leaf("condition", type="Ready", status="True")]}},
        ),
    ),
    Case(
        "polarity",
        "spec.when.condition.status",
        {"when": leaf("condition", type="KernelDeadlock", status="False")},
        ({"when": leaf("absent", condition={"type": "KernelDeadlock", "status": "False"})},),
    ),
    Case(
        "unknown-condition",
        "spec.when.condition.type",
        {"when": leaf("condition", type="KernelDeadLock", **{"for": "1m"})},
        ({"when": DEADLOCKED}, {"unless": {"any": [leaf("condition", type="DiskPressure")]}}),
    ),
    *(
        Case(
            "pattern-always",
            "spec.when.condition.message",
            {"when": leaf("condition", type="KubeletUnhealthy", message=always)},
            ({"when": leaf("condition", type="KubeletUnhealthy", message=sometimes)},),
        )
        for always, sometimes in ((".*", ".+x"), ("a|", "a|b"), ("(foo)?", "(foo)?bar"))
    ),
    *(
        Case(
            "pattern-never",
            "spec.when.condition.reason",
            {"when": leaf("condition", type="KubeletUnhealthy", reason=never)},
            ({"when": leaf("condition", type="KubeletUnhealthy", reason=sometimes)},),
        )
        for never, sometimes in (
            ("Docker Hung", "Docker.Hung"),
            ("Hung$x", r"^Hung(x|$)"),
            ("x^Hung", "^(Docker|^Kubelet)Hung$"),
            (r"Docker\sHung", "Docker[^a-z]?Hung"),
        )
    ),
    Case(
        "pattern-unanchored",
        "spec.when.condition.reason",
        {"when": leaf("condition", type="KubeletUnhealthy", reason="Down|Hung")},
        (
            {"when": leaf("condition", type="KubeletUnhealthy", reason="^(Down|Hung)$")},
            {"when": leaf("condition", type="KubeletUnhealthy", reason="Kubelet.*Down")},
            {"when": leaf("condition", type="KubeletUnhealthy", message="hung")},
        ),
    ),
    *(
        Case(
            "reason-is-exact",
            "spec.when.event.reason",
            {"when": leaf("event", reason=pattern)},
            ({"when": leaf("event", reason="KernelOops")},),
        )
        for pattern in ("Kernel.*", "A|B", "^KernelOops$", "Kernel Oops")
    ),
    Case(
        "no-group-wait",
        "spec.groupWait",
        {"groupWait": "0s"},
        ({"groupWait": "1s"}, {"groupWait": "0s", "ladder": ladder({"notify": {}})}),
    ),
    Case("no-startup-grace", "spec.startupGrace", {"startupGrace": "0s"}, ({},)),
    Case(
        "many-attempts",
        "spec.attempts",
        {"attempts": {"max": 3, "within": "1h"}},
        ({"attempts": {"max": 5, "within": "24h"}}, {"attempts": {"max": 10, "within": "96h"}}),
    ),
    *(
        Case("beyond-memory", f"spec.{place}", {key: more}, ({key: less},))
        for place, key, more, less in (
            ("cooldown", "cooldown", "721h", "720h"),
            ("attempts.within", "attempts", {"within": "721h"}, {"within": "720h"}),
            ("relapse.within", "relapse", {"within": "721h"}, {"within": "720h"}),
        )
    ),
    Case(
        "short-cooldown",
        "spec.cooldown",
        {"cooldown": "10m"},
        ({"cooldown": "15m"}, {"cooldown": "10m", "ladder": ladder(RESTART, timeout="5m")}),
    ),
    Case(
        "window-outlasts-proof",
        "spec.ladder[0].verify",
        {"when": leaf("event", reason="KernelOops", count=3, within="15m")},
        (
            {"when": leaf("event", reason="KernelOops", count=3, within="13m")},
            {"when": {"all": [LIVE, leaf("event", reason="KernelOops", within="1h")]}},
            {
                "when": leaf("event", reason="KernelOops", count=3, within="1h"),
                "ladder": ladder(RESTART, cleared=leaf("condition", type="Ready")),
            },
        ),
    ),
    Case(
        "control-plane",
        "spec.nodes",
        {"nodes": {"all": True}, "ladder": ladder(*EMPTY, {"reboot": {}})},
        (
            {"ladder": ladder(*EMPTY, {"reboot": {}})},
            {"nodes": {"all": True}, "ladder": ladder(RESTART)},
            {
                "nodes": {
                    "selector": {"matchLabels": {"node-role.kubernetes.io/control-plane": ""}}
                },
                "ladder": ladder(*EMPTY, {"reboot": {}}),
            },
        ),
    ),
    Case("no-fault-class", "spec", {"faultClass": None}, ({},)),
    Case(
        "duplicate",
        "spec.when",
        {"when": {"all": [LIVE, OOPS]}},
        (
            {"when": {"all": [LIVE, OOPS]}, "priority": 700},
            {"when": {"any": [LIVE, OOPS]}},
            {"when": {"all": [LIVE, OOPS]}, "mode": "Off"},
        ),
        (named("other", when={"all": [OOPS, LIVE]}),),
    ),
    Case(
        "shadowed",
        "spec.when",
        {"priority": 400},
        (
            {"priority": 600},
            {"priority": 400, "when": OOPS},
            {"priority": 400, "nodes": {"selector": {"matchLabels": {"pool": "gpu"}}}},
        ),
        (named("other"),),
    ),
    Case(
        "shadowed",
        "spec.when",
        {"priority": 400, "when": {"all": [LIVE, {"all": [OOPS, LATCHED]}]}},
        (
            {"priority": 600, "when": {"all": [LIVE, OOPS]}},
            {"priority": 400, "when": {"all": [LIVE, LATCHED]}},
            {"priority": 400, "when": {"any": [LIVE, OOPS]}},
        ),
        (named("other", when=OOPS),),
    ),
    Case(
        "shadowed",
        "spec.when",
        {"priority": 400, "when": OOPS},
        ({"priority": 500, "when": OOPS}, {"priority": 400, "when": LATCHED}),
        (named("other", when={"any": [LIVE, OOPS]}),),
    ),
    Case(
        "window-as-guard",
        "spec.unless.any[0].not.fact",
        {"unless": {"any": [{"not": IN_WINDOW}]}},
        (
            {"unless": {"any": [IN_WINDOW]}},
            {"window": {"from": "22:00", "to": "04:00"}},
        ),
    ),
    Case(
        "notice-per-node",
        "spec.when.all[1].fact",
        {"when": MANY, "ladder": ladder({"notify": {}})},
        (
            {"when": MANY, "ladder": ladder({"notify": {}}), "once": {"per": "Rack"}},
            {"when": MANY, "ladder": ladder(RESTART)},
            {"when": FEW, "ladder": ladder({"notify": {}})},
        ),
    ),
)
