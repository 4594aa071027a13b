"""The questions that a rule may ask of a host, its cloud or its peers: names, types and units.

Names are `probe.field`. Who answers them is the matter of agents and providers; what nobody
answered is unknown.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ProbeField:
    """`unit` is "" for what has none; `values` are the words that a text field may have."""

    name: str
    type: Literal["boolean", "number", "text"]
    unit: str
    meaning: str
    values: tuple[str, ...] = ()


_UNIT = ("active", "inactive", "failed")
_FIELDS = (
    ProbeField("host.agent", "text", "", "whether the agent answers", ("alive", "dead")),
    ProbeField(
        "host.kubelet_state", "text", "", "the kubelet's service", ("running", "stopped", "hung")
    ),
    ProbeField(
        "host.runtime_state",
        "text",
        "",
        "the container runtime",
        ("ok", "hung", "error", "failed_after_restart"),
    ),
    ProbeField("host.time_unit", "text", "", "the time daemon's unit", _UNIT),
    ProbeField("host.platform", "text", "", "kind of machine", ("vm", "bare_metal")),
    ProbeField("host.d_state_process", "boolean", "", "a task hangs in the kernel"),
    ProbeField("host.pid_max", "number", "processes", "kernel.pid_max"),
    ProbeField("host.pid_top_owner", "text", "", "who has most processes", ("workload", "system")),
    ProbeField("host.cgroup_count", "number", "cgroups", "control groups"),
    ProbeField("host.inotify_watches_max", "number", "watches", "fs.inotify.max_user_watches"),
    ProbeField("host.netns_count_high", "boolean", "", "network namespaces leak"),
    ProbeField("host.pods_stuck_terminating", "number", "pods", "pods that do not end"),
    ProbeField("host.restarts", "number", "restarts", "of the faulty unit in the last 10 min"),
    ProbeField("host.stuck_s", "number", "seconds", "since the oldest stuck container"),
    ProbeField(
        "power.cloud_state",
        "text",
        "",
        "the machine by its provider or BMC",
        ("running", "stopped", "absent", "unknown"),
    ),
    ProbeField("write.write_test", "text", "", "a test write with fsync", ("ok", "erofs")),
    ProbeField("write.write_test_path", "text", "", "where it was written"),
    ProbeField("disk.used_pct", "number", "percent", "bytes used of the image filesystem"),
    ProbeField("disk.inodes_used_pct", "number", "percent", "inodes used"),
    ProbeField("disk.space_ok", "boolean", "", "neither bytes nor inodes are short"),
    ProbeField("disk.images_unused_bytes", "number", "bytes", "images that nothing uses"),
    ProbeField("clock.synchronized", "boolean", "", "the kernel's clock is synchronised"),
    ProbeField("clock.offset_s", "number", "seconds", "size of the offset to the time source"),
    ProbeField("clock.boot_clock_wrong", "boolean", "", "the clock jumped after boot"),
    ProbeField("mount.nfs_server", "text", "", "address of the server of the mount"),
    ProbeField("mount.answers", "boolean", "", "the mount answers in time"),
    ProbeField(
        "device.role",
        "text",
        "",
        "what the faulty block device carries",
        ("root", "runtime", "data_volume"),
    ),
    ProbeField("peers.nodes_same_fault", "number", "nodes", "nodes that see the same"),
    ProbeField("peers.reachable", "boolean", "", "most of three other nodes reach the host"),
    ProbeField("peers.recent_change", "boolean", "", "a rollout ended within the hour"),
    ProbeField(
        "ready.status", "text", "", "the live Ready condition", ("True", "False", "Unknown")
    ),
    ProbeField("ready.attached_node", "text", "", "node named by the VolumeAttachment"),
    ProbeField("ready.statefulset_pods", "boolean", "", "a StatefulSet's pod is on the node"),
    ProbeField("ready.gang_pods", "boolean", "", "a pod of a gang job is on the node"),
    ProbeField("ready.checkpoint_age_s", "number", "seconds", "since its last checkpoint"),
)

PROBES = {field.name: field for field in _FIELDS}

NOT_ANSWERED = frozenset(
    name
    for name in PROBES
    if name.partition(".")[0] in ("mount", "device")
    or name
    in (
        "peers.nodes_same_fault",
        "peers.recent_change",
        "host.pid_top_owner",
        "host.pods_stuck_terminating",
        "host.restarts",
        "host.stuck_s",
        "disk.images_unused_bytes",
        "clock.boot_clock_wrong",
        "ready.attached_node",
        "ready.checkpoint_age_s",
    )
)
"""Fields that nobody answers in this version: they are unknown everywhere."""
