"""What happens to healthy nodes every day, and must never make anybody act: one story each.

A story is a list of moments of one node: seconds from its begin, and an entry's fields. None of
them is a fault: somebody upgrades or boots the node, a detector or daemon restarts, a heartbeat is
late, a clock steps, a log line looks bad, an autoscaler brings a node for some hours. Durations are
drawn from what such things take; every story ends with the node healthy.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from support.benign_fleet import ANSWERS, KUBELET, Condition, Member, said

Moment = tuple[float, dict[str, Any]]
"""Seconds since a story's begin, and the entry's fields without `at` and `node`."""
START = datetime(2026, 3, 2, 6, 0, tzinfo=UTC)
HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class From:
    """An instant in an entry: so many seconds after its story began."""

    seconds: float


MAINTENANCE = "kubenode.io/maintenance-until"
SHUTDOWN = "node is shutting down"
STARTING = "container runtime status check may not have completed yet"


def ready(status: str, reason: str = "KubeletReady", message: str = "") -> dict[str, Any]:
    body = {"type": "Ready", "status": status, "reason": reason, "message": message}
    return {"condition": body}


def event(reason: str, message: str = "", source: str = "kubelet", **more: Any) -> dict[str, Any]:
    severity = more.pop("severity", "Warning")
    body = {"reason": reason, "message": message, "source": source, "severity": severity, **more}
    return {"event": body}


def condition(which: Condition, how: str, **more: Any) -> dict[str, Any]:
    return {"condition": said(which, how, **more)}


UNKNOWN = ready("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
READY = ready("True", "KubeletReady", "kubelet is posting ready status")
UNREACHABLE = "node.kubernetes.io/unreachable"


def one(member: Member, type_: str) -> Condition | None:
    return next((c for c in member.detector if c.type == type_), None)


def comes_back(rng: random.Random, member: Member, at: float) -> list[Moment]:
    """A host boots: new boot id, detectors begin anew, the kubelet grumbles once."""
    found: list[Moment] = [
        (at, {"boot": {}}),
        (at + 1, event("Rebooted", "Node has been rebooted", severity="Normal")),
        (at + 2, event("KubeletStart", "Started Kubernetes kubelet.", "systemd-monitor")),
        (at + 2, event("ContainerdStart", "Starting containerd.service", "systemd-monitor")),
        (at + 3, event("InvalidDiskCapacity", "invalid capacity 0 on image filesystem")),
        (at + 3, ready("False", "KubeletNotReady", STARTING)),
        (at + rng.uniform(8, 40), READY),
    ]  # fmt: skip
    found += [(at + rng.uniform(10, 70), condition(c, "good")) for c in member.detector]
    if rng.random() < 0.5:
        text = "failed to get imageFs info: unable to find data in memory cache"
        found.append((at + 60, event("ImageGCFailed", text)))
    if rng.random() < 0.2 and (ntp := one(member, "NTPProblem")) is not None:
        begin = at + rng.uniform(12, 20)
        found += [
            (begin, condition(ntp, "bad")),
            (begin + rng.uniform(3, 25), condition(ntp, "good")),
        ]
    return found


def goes_down(rng: random.Random, at: float, graceful: bool) -> list[Moment]:
    """From the stop of a kubelet to silence."""
    found: list[Moment] = []
    if graceful:
        found.append((at, ready("False", "KubeletNotReady", SHUTDOWN)))
    found += [
        (at + rng.uniform(5, 15), {"silent": True}),
        (at + rng.uniform(40, 55), UNKNOWN),
        (at + 56, {"taint": {"key": UNREACHABLE, "effect": "NoExecute"}}),
    ]
    return found


def back_up(at: float) -> list[Moment]:
    return [(at, {"silent": False}), (at + 1, {"taint": {"key": UNREACHABLE, "remove": True}})]


def rolling_reboot(rng: random.Random, member: Member) -> list[Moment]:
    """Somebody else's upgrade: cordon, drain, NotReady for a minute or two, back."""
    drained = rng.uniform(30, 400)
    up = drained + rng.uniform(60, 170)
    marks: dict[str, str | None] = rng.choice(
        [
            {},
            {"weave.works/kured-reboot-in-progress": "2026-03-02T00:00:00Z"},
            {"machineconfiguration.openshift.io/state": "Working"},
        ]
    )
    done = dict.fromkeys(marks, None)
    found: list[Moment] = [(0, {"cordon": True})]
    if marks:
        found.append((1, {"annotation": marks}))
    found += goes_down(rng, drained, graceful=rng.random() < 0.6)
    found += [*back_up(up), *comes_back(rng, member, up)]
    if marks:
        found.append((up + 100, {"annotation": done}))
    return [*found, (up + 120, {"cordon": False})]


def maintenance(rng: random.Random, member: Member) -> list[Moment]:
    """A person's firmware update under our maintenance annotation: long, and loud."""
    until = (START + timedelta(days=3650)).isoformat().replace("+00:00", "Z")
    up = 120 + rng.uniform(600, 1500)
    found: list[Moment] = [
        (0, {"annotation": {MAINTENANCE: until}}),
        (5, {"cordon": True}),
        *goes_down(rng, 120, graceful=True),
        *back_up(up),
        *comes_back(rng, member, up),
    ]
    if member.detector and rng.random() < 0.5:
        loud = rng.choice(member.detector)
        found += [(up + 90, condition(loud, "bad")), (up + 400, condition(loud, "good"))]
    return [*found, (up + 500, {"cordon": False}), (up + 1500, {"annotation": {MAINTENANCE: None}})]


def detector_restart(rng: random.Random, member: Member) -> list[Moment]:
    """Everything is said again, with a new transition time; for a moment nobody speaks."""
    types = [c.type for c in member.detector]
    back = rng.uniform(5, 90)
    found: list[Moment] = [(0, {"silent": types})] if types else []
    found.append((back, {"silent": False}))
    for c in member.detector:
        found.append((back + 1, condition(c, "good", since=From(back))))
    return found


def detector_gone(rng: random.Random, member: Member) -> list[Moment]:
    """A detector crashes and stays away for some time; its conditions go stale."""
    types = [c.type for c in member.detector]
    if not types:
        return []
    back = rng.uniform(600, 5400)
    again: list[Moment] = [(back + 1, condition(c, "good")) for c in member.detector]
    return [(0, {"silent": types}), (back, {"silent": False}), *again]


def late_heartbeat(rng: random.Random, member: Member) -> list[Moment]:
    """The node controller loses patience for some seconds."""
    lasts = rng.uniform(2, 50)
    return [
        (0, UNKNOWN),
        (1, {"taint": {"key": UNREACHABLE, "effect": "NoSchedule"}}),
        (lasts, READY),
        (lasts + 1, {"taint": {"key": UNREACHABLE, "remove": True}}),
        (lasts + 1, event("NodeReady", "Node is ready", "node-controller", severity="Normal")),
    ]  # fmt: skip


def kubelet_restart(rng: random.Random, member: Member) -> list[Moment]:
    """A package upgrade restarts the kubelet; a health checker may notice."""
    lasts = rng.uniform(4, 20)
    found: list[Moment] = [
        (0, event("KubeletStart", "Started kubelet.service - Kubernetes.", "systemd-monitor")),
        (2, ready("False", "KubeletNotReady", f"[{STARTING}]")),
        (lasts, READY),
    ]  # fmt: skip
    for type_ in ("KubeletUnhealthy", "KubeletProblem"):
        if (c := one(member, type_)) is not None and rng.random() < 0.4:
            found += [(1, condition(c, "bad")), (1 + rng.uniform(5, 20), condition(c, "good"))]
    if (c := one(member, "KubeletNotReady")) is not None and rng.random() < 0.4:
        found += [(1, condition(c, "bad")), (1 + rng.uniform(5, 60), condition(c, "good"))]
    return found


def runtime_restart(rng: random.Random, member: Member) -> list[Moment]:
    lasts = rng.uniform(4, 25)
    found: list[Moment] = [
        (0, event("ContainerdStart", "Starting containerd.service...", "systemd-monitor")),
        (1, ready("False", "KubeletNotReady", "container runtime is down")),
        (lasts, READY),
    ]  # fmt: skip
    for type_ in (
        "ContainerRuntimeUnhealthy",
        "ContainerRuntimeProblem",
        "RuntimeOffline",
        "CRIProblem",
    ):
        if (c := one(member, type_)) is not None and rng.random() < 0.4:
            found += [(1, condition(c, "bad")), (1 + rng.uniform(5, 20), condition(c, "good"))]
    return found


def time_daemon_restart(rng: random.Random, member: Member) -> list[Moment]:
    """A check that asks in the wrong moment; every answer of the host says that all is well."""
    c = one(member, "NTPProblem")
    if c is None:
        return [(0, event("ClockUnsynchronized", "", "eks-node-monitoring-agent"))]
    return [(0, condition(c, "bad")), (rng.uniform(3, 30), condition(c, "good"))]


def clock_step(rng: random.Random, member: Member) -> list[Moment]:
    """The node's clock jumps: reports with transition and heartbeat times of other hours.

    A short unhealthy report in it claims to have been so for hours: only our own clock knows.
    """
    hours = rng.choice([-26, -5, -1, 1, 7, 30])
    found: list[Moment] = []
    for c in member.detector:
        moved = {"since": From(hours * HOUR), "heard": From(min(hours, 0) * HOUR)}
        found.append((0, condition(c, "good", **moved)))
    brief = [c for c in member.detector if not c.latched]
    if brief:
        c = rng.choice(brief)
        found.append((20, condition(c, "bad", since=From(-abs(hours) * HOUR))))
        found.append((20 + rng.uniform(2, 7), condition(c, "good")))
    return [*found, (40, {"heard": True})]


def pressure(rng: random.Random, member: Member) -> list[Moment]:
    """The kubelet reclaims by itself."""
    which = rng.choice(KUBELET)
    lasts = rng.uniform(20, 90) if which.type == "DiskPressure" else rng.uniform(30, 900)
    return [
        (0, condition(which, "bad")),
        (1, event("EvictionThresholdMet", "Attempting to reclaim memory")),
        (lasts, condition(which, "good")),
    ]


def planned_event(rng: random.Random, member: Member) -> list[Moment]:
    """Advance notices of clouds that ask nothing of us, or are taken back."""
    name = f"he-{rng.randrange(10**9)}"
    kind = rng.choice(["Freeze", "Freeze", "Billing", "Maintenance", "Reboot"])
    body: dict[str, Any] = {
        "class": kind,
        "source": "Azure",
        "externalID": name,
        "phase": "Scheduled",
    }
    body["notBefore"] = From(900) if kind == "Freeze" else From(240 * HOUR)
    last = "Completed" if kind == "Freeze" else "Cancelled"
    over = rng.uniform(905, 1200)
    return [(0, {"hostEvent": dict(body)}), (over, {"hostEvent": {**body, "phase": last}})]


def quiet_alert(rng: random.Random, member: Member) -> list[Moment]:
    """Alerts about load: people like to know, nobody repairs a node for them."""
    name = rng.choice(["NodeCPUHighUsage", "NodeMemoryMajorPagesFaults", "NodeDiskIOSaturation"])
    labels = {"severity": "warning", "instance": f"{member.name}:9100"}
    firing = {"name": name, "status": "firing", "labels": labels}
    return [
        (0, {"alert": firing}),
        (rng.uniform(60, 3000), {"alert": {**firing, "status": "resolved"}}),
    ]


STORIES: Sequence[tuple[Callable[[random.Random, Member], list[Moment]], float]] = (
    (late_heartbeat, 4),
    (kubelet_restart, 2),
    (runtime_restart, 1.5),
    (detector_restart, 3),
    (detector_gone, 0.3),
    (time_daemon_restart, 1),
    (clock_step, 0.7),
    (pressure, 1.5),
    (planned_event, 0.4),
    (quiet_alert, 1),
    (maintenance, 0.15),
)
"""What happens to a node by itself, and how often relative to the others."""
BETWEEN_H = 12.0
"""Mean hours of quiet between two stories of one node, at pace 1."""

_EKS, _KERNEL = "eks-node-monitoring-agent", "kernel-monitor"
NOISE: Sequence[tuple[str, str, str]] = (
    ("OOMKilling", "Killed process 4242 (java) total-vm:9000000kB, anon-rss:8000000kB", _KERNEL),
    ("TaskHung", "INFO: task dockerd:1042 blocked for more than 120 seconds.", _KERNEL),
    ("UnregisterNetDevice", "unregister_netdevice: waiting for lo to become free.", _KERNEL),
    ("Ext4Warning", "EXT4-fs warning (device sda1): Directory index full!", _KERNEL),
    ("CperHardwareErrorCorrected", "{2}[Hardware Error]: event severity: corrected", _KERNEL),
    ("MemoryReadError", "CE memory read error on CPU_SrcID#0_MC#1_Chan#0_DIMM#0", _KERNEL),
    ("CCPPCrash", "Process 811 (sleep) crashed in main()", "abrt-adaptor"),
    ("AppCrash", "segfault at 0 ip 00007f in nginx", _EKS),
    ("SoftLockup", "watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [java:991]", _EKS),
    ("IODelays", "process blocked on I/O for 3 s", _EKS),
    ("BandwidthInExceeded", "", _EKS),
    ("PPSExceeded", "", _EKS),
    ("NvidiaXID13Warning", "Graphics Engine Exception", _EKS),
    ("FailedMount", "MountVolume.SetUp failed for volume cm: configmap not found", "kubelet"),
    ("BackOff", "Back-off restarting failed container", "kubelet"),
    ("EvictionThresholdMet", "Attempting to reclaim ephemeral-storage", "kubelet"),
    ("Pulled", "Successfully pulled image tools/kernel-oops-exporter:1", "kubelet"),
    ("Created", "Created container: unregister_netdevice: waiting for lo", "kubelet"),
    ("Started", "Shutting down filesystem demo container started", "kubelet"),
    ("FreezeScheduled", "Node is scheduled for freeze", "custom-plugin"),
    ("NodeNotReady", "Node status is now: NodeNotReady", "node-controller"),
    ("ThreatScanDone", "KernelDeadlock ReadonlyFilesystem checked: nothing found", "vendor-agent"),
)  # fmt: skip
NOISE_PER_H = 0.25
APART = 1300.0
"""Seconds between two of one kind on one node: more often would be a fault in earnest."""


def guest(rng: random.Random, pattern: Member) -> list[Moment]:
    """A node of the pattern's pool from its first sight to its end."""
    join, stay = rng.uniform(15, 90), rng.uniform(0.5, 6) * HOUR
    fresh = "node.kubernetes.io/not-ready"
    unready = ready("False", "KubeletNotReady", "cni plugin not initialized")["condition"]
    born = {
        "labels": dict(pattern.labels),
        "taints": [{"key": fresh, "effect": "NoSchedule"}],
        "conditions": [{**unready, "since": From(0)}],
        "created": From(0),
    }
    return [
        (0, {"lifecycle": "created", "look": born}),
        (0, {"probe": {k: dict(v) for k, v in ANSWERS.items()}}),
        (join, READY),
        (join + 1, {"taint": {"key": fresh, "remove": True}}),
        *[(join + 5, condition(c, "good")) for c in pattern.detector],
        (stay, {"taint": {"key": "ToBeDeletedByClusterAutoscaler"}}),
        (stay + 1, {"cordon": True}),
        (stay + 40, {"silent": True}),
        (stay + 55, UNKNOWN),
        (stay + rng.uniform(60, 200), {"lifecycle": "deleted"}),
    ]
