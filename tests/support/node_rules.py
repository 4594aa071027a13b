"""Rules for faults on real Nodes, with waits of seconds, and what a job tells of its own time."""

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from support.hosts import Host
from support.pod_watch import instant

from kubenode.api.duration import parse_duration

Thing = dict[str, Any]
RUNTIME = "containerd.service"
LIBRARY = Path(__file__).parents[2] / "rules" / "library"
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


def shipped(path: str, **changes: Any) -> Thing:
    """A rule of the library as it is, but for `changes` to its spec and the time to prove."""
    found: Thing = YAML(typ="safe").load((LIBRARY / path).read_text())
    found["spec"] |= changes
    for each in found["spec"].get("ladder", ()):
        each["verify"] = each.get("verify", {}) | VERIFY
    return found


def rung(name: str, *steps: Thing) -> Thing:
    return {"name": name, "steps": list(steps), "verify": VERIFY}


def timed(job: Thing, fault: float) -> dict[str, float]:
    """Seconds: from `fault` to the job and to its end, and what of that was our own doing.

    drain     what pods took to leave, or until it was clear that they would not
    act       what host and provider took for their acts, a boot included
    overhead  from the job to its end, without holds, drain, acts, and the time that a proof has to
              last
    told      pod-seconds without a ready replacement, as the job itself counted them
    """
    timeline = job["status"]["timeline"]
    noticed = {"noticed": instant(timeline["jobCreated"]) - fault}
    if "closed" not in timeline:
        return noticed
    closed, held = instant(timeline["closed"]), _seconds(timeline.get("held", "0s"))
    drain, act = _spent(job, "migrate"), _spent(job, "agent", "reboot", "powerCycle")
    total = closed - instant(timeline["jobCreated"])
    return {
        **noticed,
        "closed": closed - fault,
        "drain": drain,
        "act": act,
        "overhead": total - held - drain - act - _seconds(VERIFY["for"]),
        "told": _seconds(timeline.get("podsUnavailable", "0s")),
    }


def _spent(job: Thing, *steps: str) -> float:
    return sum(
        instant(step["finishedAt"]) - instant(step["startedAt"])
        for step in job["status"]["steps"]
        if step["name"] in steps and "finishedAt" in step
    )


def _seconds(text: str) -> float:
    found: timedelta = parse_duration(text)
    return found.total_seconds()


def fail(host: Host) -> float:
    """containerd is killed and stays down, as after its start limit; seconds since the epoch."""
    folder = f"/run/systemd/system/{RUNTIME}.d"
    host.run("mkdir", "-p", folder)  # on a tmpfs: gone with the boot
    host.run("tee", f"{folder}/stays-down.conf", stdin="[Service]\nRestart=no\n")
    host.run("systemctl", "daemon-reload")
    host.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", RUNTIME)
    return time.time()
