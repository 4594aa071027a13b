"""Probes that a rule may ask of a host, its cloud or its peers: names, types and units.

Names are `probe.field`. agent/probes/host.py and remedy/hostprobes/desk.py declare in PRODUCED
which fields and values they answer. A field without an answer is unknown.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ProbeField:
    """A field of a probe. unit: "" if it has none; values: possible values of a text field."""

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
        ("ok", "hung", "error"),
    ),
    ProbeField("host.time_unit", "text", "", "the time daemon's unit", _UNIT),
    ProbeField("host.platform", "text", "", "kind of machine", ("vm", "bare_metal")),
    ProbeField("host.d_state_process", "boolean", "", "a task hangs in the kernel"),
    ProbeField("host.pid_max", "number", "processes", "kernel.pid_max"),
    ProbeField("host.cgroup_count", "number", "cgroups", "control groups"),
    ProbeField("host.inotify_watches_max", "number", "watches", "fs.inotify.max_user_watches"),
    ProbeField("host.netns_count_high", "boolean", "", "network namespaces leak"),
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
    ProbeField(
        "disk.data_volumes", "boolean", "", "a disk is mounted that is neither system nor images"
    ),
    ProbeField("clock.synchronized", "boolean", "", "the kernel's clock is synchronised"),
    ProbeField("clock.offset_s", "number", "seconds", "size of the offset to the time source"),
    ProbeField(
        "clock.boot_clock_wrong", "boolean", "", "the clock was set by over 10 min since boot"
    ),
    ProbeField("mount.answers", "boolean", "", "all network mounts answer in time"),
    ProbeField("peers.reachable", "boolean", "", "most of three other nodes reach the host"),
    ProbeField(
        "ready.status", "text", "", "the live Ready condition", ("True", "False", "Unknown")
    ),
    ProbeField("ready.statefulset_pods", "boolean", "", "a StatefulSet's pod is on the node"),
    ProbeField("ready.gang_pods", "boolean", "", "a pod of a gang job is on the node"),
    ProbeField(
        "ready.pods_stuck_terminating", "number", "pods", "pods over 1 min past their grace period"
    ),
    ProbeField(
        "ready.oldest_pending_s", "number", "seconds", "since a pod that has not started was bound"
    ),
)

PROBES = {field.name: field for field in _FIELDS}

REMOVED = {
    "peers.nodes_same_fault": "ask the fact cluster.sameFault",
    "peers.recent_change": "leave it out",
    "device.role": "ask disk.data_volumes",
    "host.stuck_s": "ask ready.oldest_pending_s",
    "host.pods_stuck_terminating": "ask ready.pods_stuck_terminating",
    "host.restarts": "count Events with `count` and `within`",
    "host.pid_top_owner": "leave it out",
    "mount.nfs_server": "leave it out",
    "ready.attached_node": "leave it out",
    "ready.checkpoint_age_s": "leave it out",
}
"""Fields of earlier versions that no program answered, and what to write instead."""
