"""Describes the host of a case, and reads it with the agent's own code.

The kernel's files and tasks are written into a folder, and agent.probes reads them there. Units,
clock and file systems are described in memory and read through the agent's ports. Only fields that
the case describes are answered.
"""

import asyncio
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from agent.detectors.checks.host.mounts import TABLE
from agent.host import HostError, NoSuchUnit, Unit, UnitVerb
from agent.probes import readings, services
from agent.probes.host import JUMP_SECONDS, HostProbes
from rules.facts import Value
from simulation.cases.form import Facts
from simulation.hosts.host import SimulatedTime

POINTS = {"root": "/", "runtime": "/var/lib/containerd", "data_volume": "/var/lib/kubelet/pods/x"}
BLOCKS = 100_000
"""Size of a described file system, in blocks and in inodes."""
PLENTY_PCT, SCARCE_PCT = 0.0, 100.0
TASK = "77 (dockerd) D 1 " + "0 " * 17 + "4711 0\n"
"""A line of /proc/PID/stat, with the start time of the task in field 22."""
Answers = dict[str, Value]


def host_answers(facts: Facts) -> Answers:
    """Return the answers of the agent, by `probe.field`."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in _files(facts):
            file = Path(root, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        answers = {**_kernel(facts, root), **_data_volumes(facts, root)}
    return {**answers, **_disk(facts), **asyncio.run(_services(facts))}


def _files(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield path and content of the described files of the kernel."""
    if facts.pid_max is not None:
        yield "proc/sys/kernel/pid_max", f"{facts.pid_max}\n"
    if facts.inotify_watches_max is not None:
        yield "proc/sys/fs/inotify/max_user_watches", f"{facts.inotify_watches_max}\n"
    if facts.cgroup_count is not None:
        yield "proc/cgroups", f"memory\t0\t{facts.cgroup_count}\t1\n"
    if facts.platform is not None:
        yield "proc/cpuinfo", "flags : hypervisor\n" if facts.platform == "vm" else "flags : fpu\n"
    if facts.netns_count_high is not None:
        many = readings.MANY_NAMESPACES + 1 if facts.netns_count_high else 1
        yield from ((f"{readings.NETWORK_NAMESPACES}/cni-{number}", "") for number in range(many))
    yield "proc/77/stat", TASK if facts.d_state_process else TASK.replace(" D ", " S ")
    devices = {"root-disk": "root"} | facts.device_role
    lines = (
        f"{number} 1 8:{number} / {POINTS[role]} rw - ext4 /dev/{name} rw\n"
        for number, (name, role) in enumerate(devices.items())
    )
    yield TABLE, "".join(lines)


def _kernel(facts: Facts, root: str) -> Answers:
    described = {
        "platform": facts.platform,
        "pid_max": facts.pid_max,
        "inotify_watches_max": facts.inotify_watches_max,
        "cgroup_count": facts.cgroup_count,
        "netns_count_high": facts.netns_count_high,
        "d_state_process": facts.d_state_process,
    }
    answer = {**readings.kernel(root), "d_state_process": readings.hangs_in_kernel(root, 0.0)}
    return _only(described, "host", answer)


def _data_volumes(facts: Facts, root: str) -> Answers:
    return {"disk.data_volumes": readings.has_data_volumes(root)} if facts.device_role else {}


def _disk(facts: Facts) -> Answers:
    """Return the usage of the file system of images. A case that only says whether the space
    suffices describes an empty or a full one.
    """
    described = {
        "used_pct": facts.disk_used_pct,
        "inodes_used_pct": facts.inodes_used_pct,
        "space_ok": facts.disk_space_ok,
    }
    short = PLENTY_PCT if facts.disk_space_ok is not False else SCARCE_PCT
    used = facts.disk_used_pct if facts.disk_used_pct is not None else short
    answer = readings.usage(file_system(used, facts.inodes_used_pct or PLENTY_PCT))
    return _only(described, "disk", answer)


def _only(described: Mapping[str, object], probe: str, answer: Mapping[str, Value]) -> Answers:
    """Return the fields of the answer that the case describes."""
    names = (name for name, fact in described.items() if fact is not None)
    return {f"{probe}.{name}": answer[name] for name in names}


def file_system(used_pct: float, inodes_used_pct: float) -> os.statvfs_result:
    """Return what statvfs(3) reports of a file system that is used so far."""
    blocks, inodes = (round(BLOCKS * (1 - pct / 100)) for pct in (used_pct, inodes_used_pct))
    return os.statvfs_result((4096, 4096, BLOCKS, blocks, blocks, BLOCKS, inodes, inodes, 0, 255))


class DescribedHost:
    """Units of a host by name, as systemd reports them. Nothing can be done to it."""

    def __init__(self, states: Mapping[str, str]) -> None:
        self._states = {name.removesuffix(".service"): state for name, state in states.items()}

    def boot_id(self) -> str:
        return ""

    async def unit(self, name: str) -> Unit:
        state = self._states.get(name.removesuffix(".service"))
        if state is None:
            raise NoSuchUnit(f"there is no unit {name}")
        return Unit(name, state)

    async def reset_failed(self, name: str) -> None:
        raise HostError(_FIXED)

    async def unit_job(self, verb: UnitVerb, name: str, timeout: float) -> None:  # noqa: ASYNC109
        raise HostError(_FIXED)

    async def reboot(self) -> None:
        raise HostError(_FIXED)


_FIXED = "a described host does not change"


async def _services(facts: Facts) -> Answers:
    """Return the clock as chrony reports it, without an offset while it has no source, and the
    states that units alone decide.
    """
    units = {str(name): str(state) for name, state in facts.units.items()}
    if facts.kubelet_state == "stopped":
        units["kubelet"] = "inactive"
    if facts.runtime_state in ("error", "failed_after_restart"):
        units["containerd"] = "failed"
    host = DescribedHost(units)
    time = SimulatedTime(
        offset=facts.clock_offset_s or 0.0,
        known=facts.clock_synchronized is not False,
        moved=JUMP_SECONDS + 1 if facts.boot_clock_wrong else 0.0,
    )
    clock = await HostProbes(host, "", time=time).answer("clock")
    read: dict[str, Value | None] = {f"clock.{name}": value for name, value in clock.items()}
    if facts.kubelet_state == "stopped":
        read["host.kubelet_state"] = await services.kubelet(host)
    if facts.runtime_state in ("error", "failed_after_restart"):
        read["host.runtime_state"] = await services.runtime(host)
    read["host.time_unit"] = await services.time_daemon(host)
    described = {
        "clock.synchronized": facts.clock_synchronized,
        "clock.offset_s": facts.clock_offset_s,
        "clock.boot_clock_wrong": facts.boot_clock_wrong,
    }
    return {
        name: value
        for name, value in read.items()
        if value is not None and described.get(name, True) is not None
    }
