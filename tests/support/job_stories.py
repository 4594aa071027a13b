"""Jobs in every phase as an API server would have them, made by hand: what people have to read."""

from collections.abc import Mapping
from typing import Any

import msgspec
from support.clock import T0

from kubenode.api.v1alpha1 import RemedyOperationJob
from kubenode.cli.job_moments import Beside, JobEventSummary
from kubenode.cli.job_story import JobStory, story
from kubenode.runtime.kube.objects import Node, structs

NAME, NODE = "n00042-6f1c9a20b4", "n00042"
BOOT, NEW_BOOT = "1f0e2d3c-0000-4000-8000-000000000001", "9a8b7c6d-0000-4000-8000-000000000002"
EXPLANATION = """rule kernel-deadlock, mode Enforce, node n00042
  when:
    all: true
      condition KernelDeadlock True 30s: true, since 11:58:00, from NPD
      event KernelOops, 3 within 10m: true, 5 times
  unless:
    fact maintenance.active: false
  matches"""
LADDER: list[dict[str, Any]] = [
    {"name": "restart", "steps": [{"agent": {"action": "RestartUnit", "unit": "kubelet.service"}}]},
    {"name": "reboot", "steps": [{"cordon": {}}, {"migrate": {"timeout": "15m"}}, {"reboot": {}}]},
    {"name": "replace", "steps": [{"cordon": {}}, {"migrate": {}}, {"replace": {}}]},
]


def at(minutes: float) -> str:
    """Minutes after the job was made."""
    seconds = round(minutes * 60)
    hours, seconds = divmod(T0.hour * 3600 + seconds, 3600)
    return f"2026-01-{1 + hours // 24:02}T{hours % 24:02}:{seconds // 60:02}:{seconds % 60:02}Z"


def a_job(phase: str, *, spec: Mapping[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    fact = {"atom": "condition KernelDeadlock True 30s", "value": True, "source": "NPD"}
    unknown = {"atom": "probe host.runtime_state ok", "source": "host"}
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "RemedyOperationJob",
        "metadata": {"name": NAME, "uid": "uid-1", "creationTimestamp": at(0), "annotations": {}},
        "spec": {
            "nodeName": NODE,
            "agent": NODE,
            "nodeUID": "uid-n00042",
            "remedier": {"name": "kernel-deadlock", "uid": "uid-r", "generation": 7},
            "trigger": {
                "firstTrue": at(-1.5),
                "facts": [{**fact, "observed": at(-0.1)}, unknown],
                "explanation": EXPLANATION,
            },
            "mode": "Enforce",
            "severity": "Critical",
            "faultClass": "kernel_deadlock",
            "ladder": LADDER,
            **(spec or {}),
        },
        "status": {
            "phase": phase,
            "timeline": {"faultSeen": at(-1.5), "jobCreated": at(0)},
            **status,
        },
    }


def a_node(boot: str = BOOT, *, cordoned: bool = False, ready: str = "Unknown") -> Node:
    annotations = {"kubenode.io/cordoned-by": NAME} if cordoned else {}
    body = {
        "metadata": {"name": NODE, "uid": "uid-n00042", "annotations": annotations},
        "spec": {"unschedulable": cordoned},
        "status": {
            "nodeInfo": {"bootID": boot},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }
    found: Node = structs(Node)(msgspec.json.encode(body))
    return found


def told(
    raw: dict[str, Any],
    node: Node | None = None,
    events: tuple[JobEventSummary, ...] = (),
    audit: list[Mapping[str, Any]] | None = None,
    minutes: float = 60,
) -> JobStory:
    from datetime import timedelta

    job = RemedyOperationJob.model_validate(raw)
    return story(job, raw, Beside(events, audit), node, T0 + timedelta(minutes=minutes))


# -- what ran ------------------------------------------------------------------------------------

RESTARTED = {
    "rung": 0, "index": 0, "name": "agent", "by": "Agent", "requestID": "r0s0a1", "state": "Failed",
    "attempts": 1, "startedAt": at(1), "askedAt": at(1), "finishedAt": at(3.5), "bootID": BOOT,
    "expiresAt": at(3), "message": "RestartUnit failed: no answer within 2m",
}  # fmt: skip
CORDONED = {
    "rung": 1, "index": 0, "name": "cordon", "state": "Done", "attempts": 1,
    "startedAt": at(4), "finishedAt": at(4),
}  # fmt: skip
MOVED = {
    "rung": 1, "index": 1, "name": "migrate", "state": "Done", "attempts": 2, "startedAt": at(4),
    "finishedAt": at(20), "message": "no movable pod is left",
    "output": {"moved": "a@1;b@2;c@3", "moved1": "d@4"},
}  # fmt: skip
REBOOTING = {
    "rung": 1, "index": 2, "name": "reboot", "by": "Provider", "requestID": "r1s2a1",
    "state": "Running", "attempts": 1, "startedAt": at(20), "askedAt": at(20.1), "bootID": BOOT,
    "expiresAt": at(30),
}  # fmt: skip
REBOOTED = {
    **REBOOTING, "state": "Done", "finishedAt": at(23), "message": "the host has booted again",
    "output": {"bootID": NEW_BOOT},
}  # fmt: skip
PERMIT = {"name": "p-n00042-1", "class": "Node", "grantedAt": at(0.5), "expiresAt": at(65)}
AGENT = {
    "requests": {
        "r0s0a1": {"state": "Failed", "bootID": BOOT, "finishedAt": at(3.4), "code": 1,
                   "output": "Job for kubelet.service failed"},
    }
}  # fmt: skip
LINE: dict[str, Any] = {
    "faultSeen": at(-1.5),
    "jobCreated": at(0),
    "permitGranted": at(0.5),
    "cordoned": at(4),
}


def stories() -> dict[str, JobStory]:
    """By phase, and by what is special in it."""
    yes = {"decision": "Approve", "by": "alice", "at": at(0.4), "note": "go ahead, ticket OPS-17"}
    no = {"decision": "Deny", "by": "bob through slack-bot", "at": at(9), "note": "under load test"}
    blocked = {
        "reason": "PDBBlocked", "scope": "default/cart", "lookAgainAt": at(61),
        "message": "pod default/cart-7c9f cannot be evicted: Cannot evict pod as it would violate"
        " the pod's disruption budget. The disruption budget cart needs 3 healthy pods and has 3"
        " currently",
    }  # fmt: skip
    limit = {
        "reason": "ConcurrencyLimit", "scope": "zone=b", "lookAgainAt": at(61),
        "message": "zone b: 5 of 5 repairs are running",
    }  # fmt: skip
    ending = {
        "type": "Closing", "status": "True", "lastTransitionTime": at(9.01), "reason": "Denied",
        "message": "denied by bob through slack-bot: under load test",
    }  # fmt: skip
    proven = {
        "type": "Closing", "status": "True", "lastTransitionTime": at(30), "reason": "Proven",
        "message": "the fault is gone, proven by fresh reports",
    }  # fmt: skip
    acted = {**LINE, "drained": at(20), "acted": at(23)}
    over = {
        **acted,
        "verified": at(30),
        "closed": at(30.1),
        "held": "12m",
        "podsUnavailable": "42s",
    }
    ran = [RESTARTED, CORDONED, MOVED]
    others = [{"remedier": "ntp-drift", "why": "lower priority"}]
    hand = a_job("AwaitingApproval", spec={"mode": "Approve", "approval": {"required": True}})
    hand["spec"].pop("remedier")
    hand["metadata"]["annotations"] = {"kubenode.io/started-by": "carol"}
    cancelled = a_job(
        "Cancelled", spec={"approvals": [no]}, conditions=[ending], message=ending["message"],
        wordsHeard=1, timeline={**LINE, "closed": at(9.1)},
    )  # fmt: skip
    gave_up = a_job(
        "NeedsHuman", rung=2, step=2, steps=[*ran, REBOOTED], owned={"cordon": True},
        message="rung replace: replace failed: no machine of this shape is left; no rung is left",
        timeline=acted, agent=AGENT, alsoMatched=others, spec={"previous": "n00042-0000000000"},
    )  # fmt: skip
    held_events = (
        JobEventSummary("JobHeld", "node n00042: RateLimit: 60 of 60 this hour", _t(2), _t(9), 3),
        JobEventSummary(
            "JobHeld", "node n00042: ConcurrencyLimit: zone b: 5 of 5", _t(12), _t(58), 7
        ),
        JobEventSummary("JobAwaitingPermit", "node n00042", _t(1), _t(1)),
    )
    audit: list[Mapping[str, Any]] = [
        {"at": at(4.5), "by": "remedy", "who": "kubenode-remedy", "what": "Hold",
         "outcome": "Refused", "why": "pod default/cart-7c9f cannot be evicted",
         "after": "PDBBlocked"},
        {"at": at(4.2), "by": "remedy", "who": "kubenode-remedy", "what": "Evict",
         "outcome": "Done", "after": "default/a, default/b"},
    ]  # fmt: skip
    return {
        "pending": told(a_job("Pending"), a_node(), minutes=0.1),
        "awaiting-approval-by-hand": told(hand, a_node(), minutes=5),
        "awaiting-permit": told(
            a_job("AwaitingPermit", hold=limit, rung=1), a_node(), held_events
        ),
        "running-blocked": told(
            a_job("Running", hold=blocked, rung=1, step=1, permit=PERMIT, owned={"cordon": True},
                  steps=[RESTARTED, CORDONED, {**MOVED, "state": "Running", "finishedAt": None}],
                  timeline=LINE, spec={"approvals": [yes]}, wordsHeard=1),
            a_node(cordoned=True), audit=audit, minutes=10,
        ),
        "running-rebooting": told(
            a_job("Running", rung=1, step=2, permit=PERMIT, owned={"cordon": True, "bootID": BOOT},
                  steps=[*ran, REBOOTING], timeline={**LINE, "drained": at(20)}, agent=AGENT),
            a_node(cordoned=True), minutes=22,
        ),
        "verifying": told(
            a_job("Verifying", rung=1, step=3, permit=PERMIT, owned={"cordon": True},
                  timeline=acted, steps=[*ran, REBOOTED], evidenceFalseSince=at(26)),
            a_node(NEW_BOOT, cordoned=True, ready="True"), minutes=27,
        ),
        "needs-human": told(gave_up, a_node(NEW_BOOT, cordoned=True)),
        "succeeded": told(
            a_job("Succeeded", rung=1, step=3, steps=[*ran, REBOOTED], timeline=over,
                  conditions=[proven], message=proven["message"]),
            a_node(NEW_BOOT, ready="True"),
        ),
        "failed": told(a_job("Failed", steps=[RESTARTED], message="no rung is left",
                             timeline={**LINE, "closed": at(4)}), None),
        "cancelled": told(cancelled, a_node()),
        "shadowed": told(a_job("Shadowed", spec={"mode": "DryRun"}, timeline={"closed": at(0.1)},
                               message="Kube Defender would have refused (Paused): maintenance"),
                         a_node()),
    }  # fmt: skip


def _t(minutes: float) -> Any:
    from datetime import timedelta

    return T0 + timedelta(minutes=minutes)
