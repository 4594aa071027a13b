"""Runs a program as the container of the agent's DaemonSet, on a disposable host, as runc would.

    agent_pod.py SPEC [PROGRAM ARGUMENT...]

SPEC is a file of JSON that support.agent_pod derives from the chart's manifest. The unit that runs
this has a mount namespace of its own (unshare), whose mounts are slaves of the host's.

The container's root is another tree than the host's: an overlay over IMAGE, whose tools for hosts
refuse to work and whose files say that they are the container's. A program that misses the host's
root is thus noticed.
"""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

IMAGE = "/opt/pod/image"
BASE = Path("/run/agent-pod")
ROOT = BASE / "root"
HOST_TOOLS = (
    *("journalctl", "systemctl", "systemd-run", "timedatectl", "ip", "ss", "ps", "df", "dumpe2fs"),
    *("chronyc", "ctr", "crictl", "modprobe", "nvidia-smi", "apt-get", "dpkg", "dpkg-query"),
)
REFUSAL = '#!/bin/sh\necho "$0 of the container was run"\nexit 86\n'
OF_THE_CONTAINER = {
    "usr/lib/os-release": "ID=container\nVERSION_ID=0\n",
    "etc/fstab": "container /srv/container ext4 ro 0 0\n",
    "etc/passwd": "root:x:0:0::/:/bin/sh\n",
    "etc/group": "root:x:0:\n",
    "etc/resolv.conf": "# of the container\n",
}
FOLDERS = ("proc", "sys", "dev", "opt/kubenode", "run", "tmp")
PIVOT_ROOT, DETACH = 155, 2
"""pivot_root(2) on x86-64; MNT_DETACH."""


def command(*argv: object) -> None:
    subprocess.run([str(word) for word in argv], check=True)


def make_root() -> None:
    BASE.mkdir(exist_ok=True)
    command("mount", "-t", "tmpfs", "tmpfs", BASE)
    for name in ("upper", "work", "root"):
        (BASE / name).mkdir()
    layers = f"lowerdir={IMAGE},upperdir={BASE}/upper,workdir={BASE}/work"
    command("mount", "-t", "overlay", "pod", "-o", layers, ROOT)
    for folder in FOLDERS:
        (ROOT / folder).mkdir(parents=True, exist_ok=True)
    for path, text in OF_THE_CONTAINER.items():
        (ROOT / path).unlink(missing_ok=True)
        (ROOT / path).write_text(text)
    for tool in HOST_TOOLS:
        for folder in ("usr/bin", "usr/sbin"):
            if (place := ROOT / folder / tool).is_symlink() or place.exists():
                place.unlink()
        (ROOT / "usr/bin" / tool).write_text(REFUSAL)
        (ROOT / "usr/bin" / tool).chmod(0o755)


def mount_kernel() -> None:
    """A privileged container has the kernel's file systems writable, and the host's devices."""
    command("mount", "-t", "proc", "proc", ROOT / "proc")
    for name in ("sys", "dev", "opt/kubenode"):
        command("mount", "--rbind", f"/{name}", ROOT / name)
        command("mount", "--make-rslave", ROOT / name)


def mount_point(target: str) -> Path:
    """Make the folder of a volume. Links, such as /var/run, lead within the container's root."""
    command("chroot", ROOT, "mkdir", "-p", target)
    resolve = ["chroot", str(ROOT), "readlink", "-f", target]
    place = subprocess.run(resolve, check=True, capture_output=True, text=True).stdout.strip()
    return ROOT / place.lstrip("/")


def mount_volume(volume: dict[str, Any]) -> None:
    place = mount_point(volume["target"])
    if volume["source"]:
        command("mount", "--rbind", volume["source"], place)
    else:
        command("mount", "-t", "tmpfs", "tmpfs", place)
    command("mount", "--make-rslave" if volume["follows_host"] else "--make-rprivate", place)
    if volume["read_only"]:
        command("mount", "-o", "remount,bind,ro", place)


def enter_root() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    os.chdir(ROOT)
    for result in (libc.syscall(PIVOT_ROOT, b".", b"."), libc.umount2(b".", DETACH)):
        if result != 0:
            raise OSError(ctypes.get_errno(), "enter the container's root")
    os.chdir("/")


def main(spec_file: str, *program: str) -> None:
    spec = json.loads(Path(spec_file).read_text())
    for volume in spec["volumes"]:
        if volume["make"]:  # as kubelet does beforehand
            Path(volume["source"]).mkdir(parents=True, exist_ok=True)
    make_root()
    mount_kernel()
    for volume in sorted(spec["volumes"], key=lambda volume: volume["target"]):
        mount_volume(volume)
    if spec["read_only_root"]:
        command("mount", "-o", "remount,bind,ro", ROOT)
    enter_root()
    argv = list(program) or spec["command"]
    os.execvpe(argv[0], argv, spec["env"])


if __name__ == "__main__":
    main(*sys.argv[1:])
