"""Rules for faults on real Nodes, with waits of seconds, and what a job tells of its own time."""

from datetime import timedelta
from typing import Any

from support.pod_watch import instant

from kubenode.api.duration import parse_duration

Thing = dict[str, Any]
SILENT = {
    "all": [
        {"fact": {"name": "node.leaseAge", "above": 6}},
        {"probe": {"name": "power.cloud_state", "equals": "running"}},
        {"probe": {"name": "peers.reachable", "is": False}},
    ]
}
"""A host that hangs: its kubelet is silent, no peer reaches it, and its provider says it runs."""
VERIFY = {"for": "2s", "settle": "0s", "timeout": "90s"}


def rule(name: str, fault: str, when: Thing, *ladder: Thing, **more: Any) -> Thing:
    """A rule in Enforce for all nodes; `more` goes into its spec."""
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "NodeRemedier",
        "metadata": {"name": name},
        "spec": {
            "mode": "Enforce",
            "severity": "Critical",
            "faultClass": fault,
            "nodes": {"all": True},
            "when": when,
            "unless": {"any": [{"fact": {"name": "maintenance.active"}}]},
            "groupWait": "0s",
            "startupGrace": "0s",
            "cooldown": "0s",
            "ladder": list(ladder),
            **more,
        },
    }


def rung(name: str, *steps: Thing) -> Thing:
    return {"name": name, "steps": list(steps), "verify": VERIFY}


def timed(job: Thing, fault: float) -> dict[str, float]:
    """Seconds: from `fault` to the job and to its end, and what of that was our own doing.

    overhead  from the first true to the end, without holds, waiting for a slot, draining, what
              hosts and providers took for their acts, and the time a proof has to last
    """
    status = job["status"]
    line = {k: instant(v) for k, v in status["timeline"].items() if "T" in str(v)}
    held = _seconds(status["timeline"].get("held", "0s"))
    theirs = sum(
        instant(step["finishedAt"]) - instant(step["startedAt"])
        for step in status["steps"]
        if step["name"] in ("migrate", "agent", "reboot", "wait")
        or step["name"].startswith("power")
        if step.get("finishedAt") and step.get("startedAt")
    )
    noticed = {"noticed": line["jobCreated"] - fault}
    if "closed" not in line:
        return noticed
    total = line["closed"] - line["faultSeen"]
    overhead = total - held - theirs - _seconds(VERIFY["for"])
    return {**noticed, "closed": line["closed"] - fault, "overhead": overhead}


def _seconds(text: str) -> float:
    found: timedelta = parse_duration(text)
    return found.total_seconds()
