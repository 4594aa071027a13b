"""The component library at a site of disposable hosts: archives, packages and objects of its sets.

Programs that cannot be had here are stand-ins, in archives of the layout that their projects use.
"""

import hashlib
import io
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.component_packages import serve
from support.host_image import debian_packages, newer_containerd, node_packages
from support.hosts import Host
from support.kubelet_hosts import CONTAINERD

from kubenode.cli.component_edit import ComponentEdit, edit_entry, plain
from kubenode.cli.component_library import find_entry

SELECTOR = {"pool": "online"}
BRISK = {"batches": [1], "maxUnavailable": 1, "bakeTime": "1s", "maxAttempts": 1}
EXPORTER = "prometheus-node-exporter"
NODE_ARCHIVE = "kubernetes/node/bin"
CRICTL = "#!/bin/sh\necho 'Version:  0.1.0'\n"
NPD = """#!/usr/bin/python3
import pathlib, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlparse

flags = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[1:])
pathlib.Path(flags["config.system-log-monitor"]).read_text()
(kubeconfig,) = parse_qs(urlparse(flags["apiserver-override"]).query)["auth"]
pathlib.Path(kubeconfig).read_text()


class Health(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/healthz" else 404)
        self.end_headers()


HTTPServer((flags["address"], int(flags["port"])), Health).serve_forever()
"""
"""Reads what its flags name, and answers the health check."""


@dataclass(frozen=True, slots=True)
class Archive:
    url: str
    sha256: str

    @property
    def flags(self) -> list[str]:
        return ["--url", self.url, "--sha256", self.sha256]


@dataclass(frozen=True, slots=True)
class LibrarySite:
    """shelf: the folder that is served at `url`."""

    shelf: Path
    url: str

    def pack(self, name: str, files: Mapping[str, Path | str]) -> Archive:
        """Write an archive of programs. A text is the content of a program."""
        archive = self.shelf / f"{name}.tar.gz"
        with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
            for path, content in files.items():
                if isinstance(content, Path):
                    tar.add(content, path)
                else:
                    entry = tarfile.TarInfo(path)
                    entry.size, entry.mode = len(content.encode()), 0o755
                    tar.addfile(entry, io.BytesIO(content.encode()))
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        return Archive(f"{self.url}/{archive.name}", digest)

    def pack_node(self, version: str, programs: Mapping[str, Path]) -> Archive:
        """Pack programs of Kubernetes as its archives for nodes do."""
        files = {f"{NODE_ARCHIVE}/{name}": path for name, path in programs.items()}
        return self.pack(f"node-{version}", files)

    def runtime(self) -> list[dict[str, Any]]:
        """The objects of runc, containerd and the network plugins."""
        plugins = self._objects("cni", packages=["containernetworking-plugins"])
        return [*self._objects("runc", packages=["runc"]), *self.containerd(), *plugins]

    def containerd(self, package: Path | None = None) -> list[dict[str, Any]]:
        """The objects of containerd. Without a package it is the one of the hosts' release."""
        text = package_version(package) if package else debian_version("containerd")
        version = text.partition("~")[0]
        made = self._objects("containerd", version=version, versions={"containerd": text})
        made[0]["spec"]["files"][0]["content"]["inline"] = CONTAINERD.read_text()
        return made

    def kubelet(self, version: str, archive: Archive) -> list[dict[str, Any]]:
        made = self._objects("kubelet", archive, version=version)
        made[0]["spec"]["healthDeadline"] = "4m"
        return made

    def others(self, version: str, node: Archive, server: str) -> list[dict[str, Any]]:
        """The objects of the components beside the kubelet.

        version: that of kube-proxy. server: host and port of the API server.
        """
        crictl = self.pack("crictl", {"crictl": CRICTL})
        npd = {"bin/node-problem-detector": NPD, "config/kernel-monitor.json": "{}"}
        detector = self.pack("node-problem-detector", npd)
        proxy = self._objects("kube-proxy", node, version=version)
        config = proxy[0]["spec"]["files"][0]["content"]
        config["inline"] += (
            "conntrack: {maxPerCore: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}\n"
        )
        return [
            *proxy,
            *self._objects("crictl", crictl),
            *self._objects("node-problem-detector", detector, apiServer=server),
            *self._objects("node-exporter", packages=[EXPORTER]),
        ]

    def _objects(
        self,
        name: str,
        archive: Archive | None = None,
        *,
        version: str = "",
        packages: list[str] | None = None,
        versions: Mapping[str, str] | None = None,
        **values: str,
    ) -> list[dict[str, Any]]:
        """Return the component and its set, as `kubenode component library show` prints them."""
        url, sha256 = (archive.url, archive.sha256) if archive is not None else ("", "")
        named = versions or {package: debian_version(package) for package in packages or ()}
        edit = ComponentEdit(version, url, sha256, named, values, SELECTOR)
        entry = edit_entry(find_entry(name), edit)
        component, component_set = plain(entry.component), plain(entry.component_set)
        component_set["spec"]["updateStrategy"] = BRISK
        return [component, component_set]


def serve_packages(host: Host) -> None:
    """Let the host's apt offer the packages of the library, and a newer containerd."""
    serve(host, [*_packages(), newer_containerd()])
    host.run("apt-get", "update")


def debian_version(package: str) -> str:
    """Return the version of a package of the hosts' release."""
    (file,) = (file for file in _packages() if file.name.startswith(f"{package}_"))
    return package_version(file)


def package_version(file: Path) -> str:
    argv = ["dpkg-deb", "--field", str(file), "Version"]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def _packages() -> list[Path]:
    folders = (node_packages(), debian_packages(EXPORTER))
    return sorted(file for folder in folders for file in folder.glob("*.deb"))
