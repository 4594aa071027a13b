"""Labelled negatives: thousands of nodes that show something, and must all be left alone.

Each is made of a fault as a vendor's detector would tell it, and of a reason why it is none, or
none of ours: the status is the healthy one, it lasted seconds, the detector has been silent for
hours, the node is in maintenance, the type only looks like it, somebody else spoke... So the label
is known by construction, not by asking the rules. Every negative is one node; many of them share
one simulated fleet with as many healthy nodes.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from support.benign_fleet import ACK, AKS, ANSWERS, CCE, EKS_GPU, NPD, TKE, Condition

from simulation.replay.signals import NodeSnapshot
from simulation.replay.timeline import Entry, entry

START = datetime(2026, 4, 6, 9, 0, tzinfo=UTC)
LASTS = timedelta(minutes=20)
"""How long each is watched."""
OLD = START - timedelta(days=20)
SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)


def _true(*types: str) -> tuple[Condition, ...]:
    return tuple(Condition(t, "False", f"No{t}", t) for t in types)


def _eks(part: str, *reasons: str) -> tuple[Condition, ...]:
    return tuple(Condition(f"{part}Ready", "True", f"{part}IsReady", reason) for reason in reasons)


FAULTS: Sequence[Condition] = (
    *NPD, *EKS_GPU, *AKS, *ACK, *TKE, *CCE,
    *_true(
        "DiskBadBlock", "FrequentDockerRestart", "KubeProxyUnhealthy", "GPUMissing",
        "NVLinkStatusInactive", "XIDErrors", "IBLinkFlapping", "GPUClockThrottling",
        "UnhealthyNvidiaDevicePlugin", "NvidiaXID48Error", "NvidiaXID119Error",
        "NvidiaPendingRetiredPages", "NvidiaRemappingRowsRequireReset", "NvidiaDeviceLost",
        "NvidiaInfoRomCorrupted", "NvidiaPowerCableErr", "GPUDeviceLost", "GPUNvlinkError",
        "GPUPCIeError", "GPUDoubleBitEccError", "GPUTempError", "GPURemappingRowsError",
        "ContainerdProblem", "DockerdProblem", "ConnectApiServer", "CustomPIDPressure",
        "ThreadPressure", "OverlayDiskPressure", "ConntrackProblem", "CNIProblem",
        "EmptyDirVolumeGroupStatusError", "DiskProblem", "MemoryProblem", "PIDProblem",
        "RDMAProblem", "ResolvConfFileProblem", "MemoryPressure", "DiskPressure", "PIDPressure",
        "NetworkUnavailable",
    ),
    *_eks("Networking", "IPAMDNotRunning", "InterfaceNotUp", "MissingLoopbackInterface"),
    *_eks("AcceleratedHardware", "NvidiaXID79Error", "NvidiaFabricError", "NeuronHBMUncorrectable"),
    *_eks("ContainerRuntime", "ContainerRuntimeFailed"),
)  # fmt: skip

EVENTS: Sequence[tuple[str, str, str]] = (
    ("UnregisterNetDevice", "unregister_netdevice: waiting for lo", "kernel-monitor"),
    ("KernelOops", "BUG: unable to handle kernel NULL pointer dereference at 18", "kernel-monitor"),
    ("Ext4Error", "EXT4-fs error (device sda1): ext4_lookup: deleted inode", "kernel-monitor"),
    ("IOError", "Buffer I/O error on dev sda1, logical block 7", "kernel-monitor"),
    ("CorruptDockerImage", "failed to register layer", "docker-monitor"),
    ("ConntrackFull", "Conntrack table full", "network-custom-plugin-monitor"),
    ("FreeDiskSpaceFailed", "Wanted to free 9 bytes, but freed 0 bytes", "kubelet"),
    ("ImageGCFailed", "failed to garbage collect required amount of images", "kubelet"),
    ("WindowsDefenderThreatsDetected", "threat found", "windows-defender-custom-plugin-monitor"),
    ("KubeletStart", "Started Kubernetes kubelet.", "systemd-monitor"),
    ("DockerHung", "Node condition KernelDeadlock is now: True", "kernel-monitor"),
    ("FilesystemIsReadOnly", "Node condition ReadonlyFilesystem is now: True", "readonly-monitor"),
    ("XfsHasShutdown", "XFS (sda1): Shutting down filesystem", "kernel-monitor"),
    ("PreemptScheduled", "Node is scheduled for preemption", "custom-plugin"),
    ("Failed", "failed to reserve container name web_0", "kubelet"),
)  # fmt: skip


@dataclass(slots=True)
class Negative:
    """One node. `why` names the reason in one word, `what` the fault it looks like."""

    what: str
    why: str
    look: dict[str, Any]
    story: list[tuple[timedelta, dict[str, Any]]] = field(default_factory=list)
    created: datetime = OLD


Maker = Callable[[random.Random, Condition], Negative]


def _body(
    c: Condition, status: str, reason: str = "", message: str = "", **more: Any
) -> dict[str, Any]:
    return {"type": c.type, "status": status, "reason": reason, "message": message, **more}


def _of(c: Condition, why: str, body: dict[str, Any], **look: Any) -> Negative:
    """A node that has the condition from the start."""
    return Negative(c.type, why, {"conditions": [{"since": OLD, **body}], **look})


def _words(rng: random.Random, c: Condition) -> str:
    return rng.choice(
        [
            f"{c.type} was repaired by an engineer",
            f"last incident: {c.bad_reason}, closed",
            f"checked for {c.type}: nothing found",
            f"task docker:1 blocked; {c.bad_reason}; this is history",
            "",
        ]
    )


def healthy(rng: random.Random, c: Condition) -> Negative:
    since = START - rng.uniform(0, 900) * HOUR
    return _of(c, "healthy", _body(c, c.good, c.good_reason, since=since))


def healthy_words(rng: random.Random, c: Condition) -> Negative:
    return _of(c, "healthy_words", _body(c, c.good, c.good_reason, _words(rng, c)))


def healthy_old_reason(rng: random.Random, c: Condition) -> Negative:
    return _of(c, "healthy_old_reason", _body(c, c.good, c.bad_reason, _words(rng, c)))


def unknown(rng: random.Random, c: Condition) -> Negative:
    reason = rng.choice(["NodeStatusNeverUpdated", "NoData", "PluginTimeout"])
    return _of(c, "unknown", _body(c, "Unknown", reason))


def brief(rng: random.Random, c: Condition) -> Negative:
    """Seconds only, though the report claims to be hours old."""
    made = _of(c, "brief", _body(c, c.good, c.good_reason))
    claimed = START - rng.choice([0, 1, 5]) * HOUR
    at = rng.uniform(30, 300) * SECOND
    made.story = [
        (at, {"condition": _body(c, c.bad, c.bad_reason, since=claimed)}),
        (at + rng.uniform(1, 6) * SECOND, {"condition": _body(c, c.good, c.good_reason)}),
    ]
    return made


def stale(rng: random.Random, c: Condition) -> Negative:
    """Nobody has heard from the detector for hours."""
    heard = START - rng.uniform(3, 40) * HOUR
    made = _of(c, "stale", _body(c, c.bad, c.bad_reason, heard=heard))
    made.story = [(timedelta(0), {"silent": [c.type]})]
    return made


def detector_restarts(rng: random.Random, c: Condition) -> Negative:
    made = _of(c, "detector_restarts", _body(c, c.good, c.good_reason))
    for number in range(rng.randrange(1, 4)):
        at = (60 + 200 * number) * SECOND
        made.story.append((at, {"condition": _body(c, c.good, c.good_reason, since=START + at)}))
    return made


def starting(rng: random.Random, c: Condition) -> Negative:
    """A node of a minute ago, not all of which runs yet."""
    made = _of(c, "starting", _body(c, c.bad, c.bad_reason, since=START - 20 * SECOND))
    made.created = START - 40 * SECOND
    good = {"condition": _body(c, c.good, c.good_reason)}
    made.story = [(rng.uniform(20, 90) * SECOND, good)]
    return made


def maintenance(rng: random.Random, c: Condition) -> Negative:
    until = rng.choice(["2026-04-07T00:00:00Z", "2027-01-01T00:00:00+00:00", "when I am done"])
    marks = {"kubenode.io/maintenance-until": until}
    return _of(c, "maintenance", _body(c, c.bad, c.bad_reason), annotations=marks)


def foreign_taint(rng: random.Random, c: Condition) -> Negative:
    key = rng.choice(
        ["ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption"]
    )
    return _of(c, "foreign_taint", _body(c, c.bad, c.bad_reason), taints=[{"key": key}])


def foreign_annotation(rng: random.Random, c: Condition) -> Negative:
    marks = rng.choice(
        [
            {"weave.works/kured-reboot-in-progress": "2026-04-06T08:59:00Z"},
            {"machineconfiguration.openshift.io/state": "Working"},
        ]
    )
    return _of(c, "foreign_annotation", _body(c, c.bad, c.bad_reason), annotations=marks)


def look_alike(rng: random.Random, c: Condition) -> Negative:
    name = rng.choice(
        [f"{c.type}Drill", f"{c.type}Acknowledged", f"No{c.type}", c.type.lower(), f"{c.type}2",
         f"example.com/{c.type}"]
    )  # fmt: skip
    return _of(
        Condition(name, c.good, "", ""),
        "look_alike",
        {**_body(c, c.bad, c.bad_reason), "type": name},
    )


def other_type(rng: random.Random, c: Condition) -> Negative:
    """Another condition, even a healthy one, with the fault's reason and words."""
    body = {**_body(c, c.bad, c.bad_reason, _words(rng, c)), "type": "TeamCheck"}
    return _of(c, "other_type", body)


def gone(rng: random.Random, c: Condition) -> Negative:
    """The detector was taken away while its last word was bad for a moment."""
    made = _of(c, "gone", _body(c, c.good, c.good_reason))
    at = rng.uniform(20, 60) * SECOND
    made.story = [
        (at, {"condition": _body(c, c.bad, c.bad_reason)}),
        (at + 3 * SECOND, {"condition": {"type": c.type, "gone": True}}),
    ]
    return made


def told_only(rng: random.Random, c: Condition) -> Negative:
    """An Event that speaks of the fault while the condition itself is healthy."""
    made = _of(c, "told_only", _body(c, c.good, c.good_reason))
    text = f"Node condition {c.type} is now: {c.good}, reason: {c.good_reason}"
    made.story = [(30 * SECOND, {"event": {"reason": "ConditionChanged", "message": text}})]
    return made


def flapping_briefly(rng: random.Random, c: Condition) -> Negative:
    """Bad for seconds again and again: it never adds up to a time held."""
    made = _of(c, "flapping_briefly", _body(c, c.good, c.good_reason))
    for number in range(6):
        at = (40 + 150 * number) * SECOND
        made.story += [
            (at, {"condition": _body(c, c.bad, c.bad_reason)}),
            (at + rng.uniform(1, 6) * SECOND, {"condition": _body(c, c.good, c.good_reason)}),
        ]
    return made


CONDITION_REASONS: Sequence[Maker] = (
    healthy, healthy_words, healthy_old_reason, unknown, brief, stale, detector_restarts, starting,
    maintenance, foreign_taint, foreign_annotation, look_alike, other_type, gone, told_only,
    flapping_briefly,
)  # fmt: skip


def _event(why: str, reason: str, message: str, source: str, **more: Any) -> Negative:
    body = {"reason": reason, "message": message, "source": source, "severity": "Warning", **more}
    return Negative(reason, why, {}, [(10 * SECOND, {"event": body})])


def of_events(rng: random.Random) -> Iterator[Negative]:
    """Events that are too old, about other things, or in a node's maintenance.

    A notice of reclaim is a fact whoever works on the node: emptying it then is no false action.
    """
    for reason, message, source in EVENTS:
        long_ago = START - rng.uniform(26, 90) * HOUR
        old = _event("event_old", reason, message, source, first=long_ago, last=long_ago, count=9)
        yield old
        for other, by in (("Pulled", "kubelet"), ("Created", "kubelet"), ("TeamNote", "a-person")):
            yield _event("event_words", other, message, by)
        yield _event("event_look_alike", f"{reason}Cleared", message, source, count=20)
        yield _event("event_look_alike", reason.lower(), message, source, count=20)
        for look in (
            {"annotations": {"kubenode.io/maintenance-until": "2026-04-07T00:00:00Z"}},
            {"taints": [{"key": "ToBeDeletedByClusterAutoscaler"}]},
        ):
            if reason == "PreemptScheduled":
                continue
            made = _event("event_not_ours", reason, message, source, count=20, first=START)
            made.look = look
            yield made


def of_readiness(rng: random.Random) -> Iterator[Negative]:
    """Ready is not True, for a short time or for somebody else's reason."""
    silent = ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
    stories: Sequence[tuple[str, str, str]] = (
        silent,
        ("False", "KubeletNotReady", "container runtime is down"),
        ("False", "KubeletNotReady", "PLEG is not healthy: pleg was last seen active 3m1s ago"),
        ("False", "KubeletNotReady", "CSINode is not yet initialized"),
        ("False", "KubeletNotReady", "cni plugin not initialized"),
        ("False", "KubeletNotReady", "[container runtime status check may not have completed yet]"),
        ("False", "KubeletNotReady", "node is shutting down"),
    )
    for status, reason, message in stories:
        ready = {"type": "Ready", "status": status, "reason": reason, "message": message}
        for _ in range(8):
            at = rng.uniform(10, 200) * SECOND
            back = {"condition": {"type": "Ready", "status": "True", "reason": "KubeletReady"}}
            story = [(at, {"condition": ready}), (at + rng.uniform(3, 40) * SECOND, back)]
            yield Negative("Ready", "ready_brief", {}, story)
        for look in (
            {"annotations": {"kubenode.io/maintenance-until": "2026-04-07T00:00:00Z"}},
            {"annotations": {"weave.works/kured-reboot-in-progress": "x"}},
            {"taints": [{"key": "ToBeDeletedByClusterAutoscaler"}]},
            {"taints": [{"key": "karpenter.sh/disrupted"}]},
        ):
            held = {**look, "conditions": [{**ready, "since": START - HOUR}]}
            yield Negative("Ready", "ready_not_ours", held)


def negatives(seed: int = 1, rounds: int = 3) -> list[Negative]:
    """The same for the same arguments, no two alike, in mixed order."""
    rng = random.Random(seed)
    found: list[Negative] = []
    for _ in range(rounds):
        found += [maker(rng, c) for c in FAULTS for maker in CONDITION_REASONS]
        found += of_events(rng)
        found += of_readiness(rng)
    distinct = list({repr((n.what, n.why, n.look, n.story)): n for n in found}.values())
    rng.shuffle(distinct)
    return distinct


@dataclass(slots=True)
class Crowd:
    """Negatives of one simulated fleet, by node, and healthy nodes around them."""

    cases: dict[str, Negative]
    looks: dict[str, NodeSnapshot]
    entries: list[Entry]


def crowd(cases: Sequence[Negative], number: int) -> Crowd:
    made = Crowd({}, {}, [])
    for index, case in enumerate(cases):
        name = f"neg-{number}-{index}"
        made.cases[name] = case
        made.looks[name] = _look(name, index, case.look, case.created)
        answers = {probe: dict(fields) for probe, fields in ANSWERS.items()}
        made.entries.append(entry(at=START, node=name, probe=answers))
        for after, fields in case.story:
            made.entries.append(entry(at=START + after, node=name, **fields))
    for index in range(len(cases)):
        name = f"well-{number}-{index}"
        made.looks[name] = _look(name, index, {}, OLD)
    return made


def _look(name: str, index: int, look: dict[str, Any], created: datetime) -> NodeSnapshot:
    labels = {
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": f"z{index % 3}",
        "kubenode.io/rack": f"r{index // 10}",
    }
    return NodeSnapshot.model_validate({**look, "labels": labels, "created": created})
