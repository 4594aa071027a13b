"""Readings from the kernel of this host. The functions block, and raise OSError.

`root` is a prefix of every path, for hosts that are observed from outside, and for tests.
"""

import ctypes
import errno
import os
import tempfile
import time

from agent.detectors.checks.host.mounts import ON_DISKS, TABLE, Mount, parse
from agent.host.files import HostRoot
from agent.probes import Answer, Value

IMAGE_FOLDERS = ("var/lib/containerd", "var/lib/containers", "var/lib/docker", "")
"""Folders of images; the first existing one is used, otherwise the root."""
USED_LIMIT_PCT, INODES_LIMIT_PCT = 85.0, 95.0
"""Kubelet's default eviction thresholds: imagefs.available<15%, nodefs.inodesFree<5%."""
UNINTERRUPTIBLE_SECONDS = 1.0
"""Seconds between two readings. A task in state D at both does more than read a file."""
NETWORK_NAMESPACES = "run/netns"
MANY_NAMESPACES = 1024
"""Threshold of network namespaces: kubelets run 110 pods by default, and few sites exceed 500."""

NETWORK_KINDS = frozenset({"nfs", "nfs4", "cifs", "smb3", "ceph"})
SYSTEM_POINTS = frozenset(
    {"/", "/boot", "/boot/efi", "/home", "/opt", "/srv", "/tmp", "/usr", "/var", "/var/log"}
    | {"/var/lib", "/var/lib/kubelet", *(f"/{folder}" for folder in IMAGE_FOLDERS if folder)}
)
"""Mount points of the operating system, kubelet and the container runtime."""

_TIME_ERROR, _UNSYNCHRONISED, _NANOSECONDS = 5, 0x0040, 0x2000


class _Timex(ctypes.Structure):
    """`struct timex` of adjtimex(2) up to the fields that are read, and space for the rest."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


def clock() -> Answer:
    """Whether the clock is synchronised, and its offset; the offset is unknown otherwise."""
    state = _Timex()
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.adjtimex(ctypes.byref(state))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"adjtimex: {os.strerror(number)}")
    synchronised = result != _TIME_ERROR and not state.status & _UNSYNCHRONISED
    if not synchronised:
        return {"synchronized": False}
    unit = 1e-9 if state.status & _NANOSECONDS else 1e-6
    return {"synchronized": True, "offset_s": abs(state.offset) * unit}


def disk(root: str = "/") -> Answer:
    """Usage of the file system of the images, of the space that users may use, as df(1) counts."""
    files = HostRoot(root)
    return usage(files.statvfs(next(folder for folder in IMAGE_FOLDERS if files.is_dir(folder))))


def usage(have: os.statvfs_result) -> Answer:
    """Return the usage of a file system, and whether it leaves the space that kubelets want."""
    usable = have.f_blocks - have.f_bfree + have.f_bavail
    used = 100.0 * (1 - have.f_bavail / usable) if usable else 100.0
    answer: dict[str, Value] = {"used_pct": round(used, 1)}
    inodes = 0.0
    if have.f_files:
        inodes = 100.0 * (1 - have.f_favail / have.f_files)
        answer["inodes_used_pct"] = round(inodes, 1)
    answer["space_ok"] = used < USED_LIMIT_PCT and inodes < INODES_LIMIT_PCT
    return answer


def has_data_volumes(root: str = "/") -> bool:
    """Whether a file system on a disk is mounted that holds neither the system nor images."""
    mounts = [mount for mount in _mounts(root) if mount.kind in ON_DISKS]
    system = {mount.device for mount in mounts if mount.point in SYSTEM_POINTS}
    return any(mount.device not in system for mount in mounts)


def network_mounts(root: str = "/") -> list[str]:
    """List the mount points of network file systems, each once."""
    return sorted({mount.point for mount in _mounts(root) if mount.kind in NETWORK_KINDS})


def _mounts(root: str) -> list[Mount]:
    return list(parse(HostRoot(root).read_text(TABLE)))


def write(folder: str) -> Answer:
    """Whether a small file can be written and synchronised. The agent must own `folder`."""
    try:
        with tempfile.TemporaryFile(dir=folder, prefix=".kubenode-write-test-") as file:
            file.write(b"kubenode")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        return {"write_test": "erofs", "write_test_path": folder}
    return {"write_test": "ok", "write_test_path": folder}


def kernel(root: str = "/") -> Answer:
    """Limits and counts of the kernel. Values that this kernel does not report are omitted."""
    answer: dict[str, Value] = {"platform": _platform(root)}
    for name, path in (
        ("pid_max", "proc/sys/kernel/pid_max"),
        ("inotify_watches_max", "proc/sys/fs/inotify/max_user_watches"),
    ):
        text = _read(root, path).strip()
        if text.isdecimal():
            answer[name] = int(text)
    if (groups := _cgroups(root)) is not None:
        answer["cgroup_count"] = groups
    files = HostRoot(root)
    if files.is_dir(NETWORK_NAMESPACES):
        count = len(files.list_names(NETWORK_NAMESPACES))
        answer["netns_count_high"] = count > MANY_NAMESPACES
    return answer


def hangs_in_kernel(root: str = "/", seconds: float = UNINTERRUPTIBLE_SECONDS) -> bool:
    """Whether a task stays in uninterruptible sleep."""
    before = _in_state_d(root)
    if not before:
        return False
    time.sleep(seconds)
    return bool(before & _in_state_d(root))


def _in_state_d(root: str) -> frozenset[tuple[str, str]]:
    """Return (pid, start time) of the tasks in state D."""
    tasks = set()
    for entry in HostRoot(root).list_names("proc"):
        if not entry.isdecimal():
            continue
        # The name is in brackets and may contain anything, including brackets and blanks.
        fields = _read(root, f"proc/{entry}/stat").rpartition(")")[2].split()
        if len(fields) > 19 and fields[0] == "D":
            tasks.add((entry, fields[19]))
    return frozenset(tasks)


def _platform(root: str) -> str:
    flags = _read(root, "proc/cpuinfo")
    return "vm" if "hypervisor" in flags else "bare_metal"


def _cgroups(root: str) -> int | None:
    for line in _read(root, "sys/fs/cgroup/cgroup.stat").splitlines():
        name, _, count = line.partition(" ")
        if name == "nr_descendants" and count.isdecimal():
            return int(count)
    for line in _read(root, "proc/cgroups").splitlines():
        fields = line.split()
        if len(fields) == 4 and fields[0] == "memory" and fields[2].isdecimal():
            return int(fields[2])
    return None


def _read(root: str, path: str) -> str:
    """Read a file; "" if it cannot be read: the process has ended, or this kernel lacks the
    file.
    """
    try:
        return HostRoot(root).read_text(path)
    except OSError:
        return ""
