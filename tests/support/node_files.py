"""What a host needs on its disk to be a Node: settings of kubelet and CNI, and an image.

There is no registry: the one image, a static busybox, comes as an archive, and every host imports
it before kubelet starts.
"""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

IMAGE = "test.kubenode.io/busybox:1"
PAUSE = "test.kubenode.io/pause:1"
COMMANDS = ("sh", "sleep", "echo", "cat", "httpd", "date", "hostname", "true", "touch")
WAIT = "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait; done"
"""Ends at once when it is asked to; a sleep as PID 1 would not hear it."""


def kubelet_config(provider_id: str, ca_file: str, dns: str = "") -> dict[str, Any]:
    """Reports often, so that a test waits seconds where a cluster waits minutes.

    dns  address of the DNS server of pods; "" for that of the host
    """
    names = {"clusterDNS": [dns], "clusterDomain": "cluster.local"} if dns else {}
    return {
        **names,
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": ca_file},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "providerID": provider_id,
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "protectKernelDefaults": True,
        "oomScoreAdj": 0,
        "nodeStatusUpdateFrequency": "2s",
        "nodeLeaseDurationSeconds": 4,
        "runtimeRequestTimeout": "5s",
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "volumePluginDir": "/var/lib/kubelet/plugins/volume",
        "maxPods": 30,
    }


def cni_config(subnet: str) -> dict[str, Any]:
    """Pods of one host on a bridge of its own."""
    ipam = {
        "type": "host-local",
        "ranges": [[{"subnet": subnet}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": False, "ipam": ipam}
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}


def write_image(busybox: Path, archive: Path) -> None:
    """A docker-archive with one layer, under two names."""
    layer = _layer(busybox.read_bytes())
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": ["PATH=/bin"], "Cmd": ["sh", "-c", WAIT]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [IMAGE, PAUSE], "Layers": ["layer.tar"]}]
    with tarfile.open(archive, "w") as tar:
        _add(tar, "config.json", json.dumps(config).encode())
        _add(tar, "layer.tar", layer)
        _add(tar, "manifest.json", json.dumps(manifest).encode())


def _layer(busybox: bytes) -> bytes:
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for name in ("bin", "tmp", "proc", "sys", "dev", "etc", "www"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(folder)
        _add(tar, "bin/busybox", busybox, 0o755)
        for name in COMMANDS:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    return layer.getvalue()


def _add(tar: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    tar.addfile(entry, io.BytesIO(data))
