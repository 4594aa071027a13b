"""What the disposable hosts of one machine share: networks, a mount, and what was left behind.

Each test run claims a bridge and a /24: kn7 and 10.88.7.0/24. The claim names the process, so that
the next run can clear away what a killed one left.
"""

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from support.cgroups import end_groups, processes, remove_groups

CLAIMS = Path("/run/kubenode-hosts")
NSPAWN_RUN = Path("/run/systemd/nspawn")
NSPAWN_TMPFS = "kubenode-hosts"
NETWORKS = range(1, 200)
INOTIFY_INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances")
ENOUGH_INSTANCES = 1024


class HostError(Exception):
    """A host did not do what a test asked of it; the text has what it said."""


def command(*argv: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command of this machine. With `check` a failure raises HostError with its output."""
    words = [str(word) for word in argv]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise HostError(f"{' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
    return done


@contextmanager
def claims() -> Iterator[None]:
    """One test run at a time looks at what is taken, and takes or clears it."""
    CLAIMS.mkdir(exist_ok=True)
    with (CLAIMS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def mount_for_nspawn() -> None:
    """nspawn refuses to start on a disk file system: it removes what it finds there."""
    NSPAWN_RUN.mkdir(parents=True, exist_ok=True)
    kind = command("stat", "-f", "-c", "%T", NSPAWN_RUN).stdout.strip()
    if kind != "tmpfs":
        command("mount", "-t", "tmpfs", "-o", "mode=755,size=64m", NSPAWN_TMPFS, NSPAWN_RUN)


def room_for_hosts() -> None:
    """Each host's systemd watches files by some seven inotify instances, and all hosts are one user
    of one kernel: with the default of 128 a fleet of twenty does not boot. Only ever raised.
    """
    with suppress(OSError):
        if int(INOTIFY_INSTANCES.read_text()) < ENOUGH_INSTANCES:
            INOTIFY_INSTANCES.write_text(str(ENOUGH_INSTANCES))


def remove_host(link: str, root: Path, groups: Sequence[Path]) -> None:
    """Disk, network and cgroups of a host that does not run any more."""
    if root.is_mount():
        command("umount", "--lazy", root, check=False)
    command("ip", "netns", "del", link, check=False)
    command("ip", "link", "del", link, check=False)
    remove_groups(groups)


def left_of(link: str, root: Path, groups: Sequence[Path]) -> list[str]:
    """What there still is of a host: its folder, mount, network namespace, link, processes."""
    found = [str(root.parent)] if root.parent.exists() else []
    mounts = Path("/proc/self/mounts").read_text().split()
    spaces = command("ip", "netns", "list").stdout.split()
    links = [each["ifname"] for each in json.loads(command("ip", "-j", "link").stdout)]
    found += [link] if link in (*mounts, *spaces, *links) else []
    return found + [str(pid) for pid in processes(groups)]


def clear_what_others_left() -> None:
    """Remove the hosts of test runs that are not alive any more."""
    for claim in CLAIMS.glob("kn*"):
        try:
            left = json.loads(claim.read_text())
        except (OSError, ValueError):
            continue  # being written, or gone by now
        if _started(left["pid"]) == left["started"]:
            continue
        folder = Path(left["folder"])
        for host in folder.glob("*"):
            groups = (host / "groups").read_text().split() if (host / "groups").exists() else []
            end_groups([Path(group) for group in groups])
            link = f"{claim.name}-{host.name}"
            remove_host(link, host / "root", [Path(group) for group in groups])
        command("ip", "link", "del", claim.name, check=False)
        shutil.rmtree(folder, ignore_errors=True)
        claim.unlink(missing_ok=True)


def claim_network(folder: Path) -> tuple[str, str]:
    """A bridge of our own and the first three octets of its network; this machine is .1 on it.

    folder  where the hosts' disks will be, to be cleared with the claim. Call within `claims`.
    """
    for number in NETWORKS:
        bridge, net = f"kn{number}", f"10.88.{number}"
        if command("ip", "route", "show", f"{net}.0/24").stdout:
            continue  # somebody else's network
        if command("ip", "link", "add", bridge, "type", "bridge", check=False).returncode:
            continue
        claim = {"pid": os.getpid(), "started": _started(os.getpid()), "folder": str(folder)}
        (CLAIMS / bridge).write_text(json.dumps(claim))
        command("ip", "addr", "add", f"{net}.1/24", "dev", bridge)
        command("ip", "link", "set", bridge, "up")
        return bridge, net
    raise HostError(f"no free network among 10.88.{NETWORKS[0]}-{NETWORKS[-1]}.0/24")


def release_network(bridge: str) -> None:
    """Remove the bridge, and the shared mount with the last one. Call within `claims`."""
    command("ip", "link", "del", bridge, check=False)
    (CLAIMS / bridge).unlink(missing_ok=True)
    if not list(CLAIMS.glob("kn*")):
        command("umount", NSPAWN_TMPFS, check=False)


def _started(pid: int) -> str:
    """When a process started, in clock ticks since boot; "" if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""
