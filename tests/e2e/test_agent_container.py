"""runc accepts what the DaemonSet asks for, and the ports of the host hold in its container.

The other suites of the Pod make its mounts themselves (tests/hosts/agent_pod.py). This one leaves
them to runc, the program that containerd starts containers with.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from support.agent_pod import pod_binds, pod_spec, pod_template
from support.agent_service import STATE
from support.hosts import Host, Hosts
from support.kubelet_hosts import ARGS, FILES

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

CONTRACT = Path(__file__).parents[1] / "hosts" / "port_contract.py"
BUNDLE = "/opt/bundle"
PREPARE = f"""
set -e
sh /opt/kubenode/node/prepare.sh
mkdir -p {BUNDLE}/rootfs /run/layers
mount -t tmpfs layers /run/layers
mkdir /run/layers/upper /run/layers/work
mount -t overlay pod {BUNDLE}/rootfs \
  -o lowerdir=/opt/pod/image,upperdir=/run/layers/upper,workdir=/run/layers/work
mkdir -p {BUNDLE}/rootfs/opt/kubenode
"""
CAPABILITIES = (
    *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL"),
    *("SETGID", "SETUID", "SETPCAP", "LINUX_IMMUTABLE", "NET_BIND_SERVICE"),
    *("NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER"),
    *("SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT"),
    *("SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME"),
    *("SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP"),
    *("MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG"),
)
"""In the order of their numbers (linux/capability.h)."""


def test_the_ports_hold_in_a_container_that_runc_starts(hosts: Hosts) -> None:
    host = hosts.boot("runc", bind={**pod_binds(), FILES: "/opt/kubenode/node"}, args=ARGS)
    try:
        host.run("sh", "-c", PREPARE)
        spec = pod_spec(host.name, "https://127.0.0.1:1")
        for volume in spec["volumes"]:
            if volume["make"]:  # as kubelet does beforehand
                host.run("mkdir", "-p", volume["source"])
        host.write(f"{STATE}/port_contract.py", CONTRACT.read_text())
        host.write(f"{BUNDLE}/config.json", json.dumps(oci_config(host, spec)))
        host.run("runc", "run", f"--bundle={BUNDLE}", "pod")
    finally:
        host.destroy()


def oci_config(host: Host, spec: dict[str, Any]) -> dict[str, Any]:
    """What containerd writes for the Pod's container. Source: the OCI runtime specification."""
    pod = pod_template()
    shared = {"pid": pod.get("hostPID"), "network": pod.get("hostNetwork")}
    namespaces = ["mount", "ipc", *(name for name, is_host in shared.items() if not is_host)]
    rights = dict.fromkeys(("bounding", "effective", "permitted"), _capabilities(host))
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": ["python3", f"{STATE}/port_contract.py"],
            "env": [f"{name}={value}" for name, value in spec["env"].items()],
            "cwd": "/",
            "capabilities": rights,
        },
        "root": {"path": "rootfs", "readonly": spec["read_only_root"]},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid"]},
            *(_bind(path, path, ["rw"]) for path in ("/sys", "/opt/kubenode")),
            *map(_volume, sorted(spec["volumes"], key=lambda v: v["target"].count("/"))),
        ],
        "linux": {
            "namespaces": [{"type": name} for name in namespaces],
            "rootfsPropagation": "rslave",
            "resources": {"devices": [{"allow": True, "access": "rwm"}]},
        },
    }


def _volume(volume: dict[str, Any]) -> dict[str, Any]:
    if not volume["source"]:
        return {"destination": volume["target"], "type": "tmpfs", "source": "tmpfs"}
    propagation = "rslave" if volume["follows_host"] else "rprivate"
    access = "ro" if volume["read_only"] else "rw"
    return _bind(volume["source"], volume["target"], [propagation, access])


def _bind(source: str, target: str, options: list[str]) -> dict[str, Any]:
    bind = ["rbind", *options]
    return {"destination": target, "type": "bind", "source": source, "options": bind}


def _capabilities(host: Host) -> list[str]:
    """All that this machine can give."""
    line = host.run("grep", "CapBnd", "/proc/self/status").stdout
    granted = int(line.split()[1], 16)
    return [f"CAP_{name}" for number, name in enumerate(CAPABILITIES) if granted >> number & 1]
