"""Real components that a test may need, and what happens when one is missing.

On a developer's machine a missing component skips its tests by name and says how to get it. With
CI=true it is a failure: a suite that quietly left out its real servers proves nothing. The control
plane is the one component that CI builds by itself.
"""

import functools
import os
import shutil
import subprocess
from pathlib import Path

import pytest

BUILD = Path(__file__).parents[1] / "control_plane" / "build.sh"
BUILD_HELM = Path(__file__).parents[1] / "helm" / "build.sh"
BUILD_GITOPS = Path(__file__).parents[1] / "gitops" / "build.sh"
BUILD_NETWORK = Path(__file__).parents[1] / "cluster_network" / "build.sh"
BUILD_NEIGHBOUR = Path(__file__).parents[1] / "neighbours" / "build.sh"
VERSION = "KUBENODE_KUBERNETES"
"""Environment variable that chooses the control plane: a folder of tests/control_plane."""
CONTROL_PLANE = "control-plane"
CLUSTER_NETWORK = "cluster-network"
CLUSTER_API = "clusterapi"
KARPENTER = "karpenter"
GITOPS = "gitops"
OLDER_KUBELET = "older-kubelet"
HELM = "helm"
HOSTS = "hosts"
IMAGES = "images"
PACKAGES = {
    "systemd-nspawn": "systemd-container",
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "nft": "nftables",
    "redis-server": "redis-server",
    "redis-sentinel": "redis-sentinel",
    "prometheus": "prometheus",
    "prometheus-alertmanager": "prometheus-alertmanager",
    "prometheus-node-exporter": "prometheus-node-exporter",
    "promtool": "prometheus",
    "chromium": "chromium",
    "containerd": "containerd",
    "git": "git",
    "buildah": "buildah",
    "mmdebstrap": "mmdebstrap",
    "patchelf": "patchelf",
    "rpmbuild": "rpm",
}
"""Programs found on PATH, and the Debian package that has each."""
NEED_ROOT = {HOSTS: ("systemd-nspawn", "debootstrap", "ip"), IMAGES: ("buildah", "mmdebstrap")}
"""Components that need root, and their programs."""


class MissingComponent(Exception):
    """A real component is not on this machine; the text says how to get it."""


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() in ("1", "true")


def control_plane_version() -> str:
    """Return the folder of tests/control_plane that names the version under test."""
    return os.environ.get(VERSION) or "newest"


def control_plane_folder() -> Path:
    """Return the folder with kube-apiserver, kubelet, kubectl, etcd, kwok and their kin.

    KUBENODE_KUBERNETES chooses their version, a folder of tests/control_plane: "newest" by default.
    In CI they are built when they are missing (some ten minutes on two cores). Raises
    MissingComponent.
    """
    version = control_plane_version()
    return _of(BUILD, f"no control plane ({version})", "some ten minutes", version)


def helm_program() -> Path:
    """helm. In CI it is built when it is missing (some three minutes). Raises MissingComponent."""
    return _of(BUILD_HELM, "no helm", "some three minutes")


def gitops_folder() -> Path:
    """The folder with kstatus and argocd-health. In CI they are built when they are missing (some
    five minutes). Raises MissingComponent.
    """
    return _of(BUILD_GITOPS, "no kstatus and Argo CD health evaluation", "some five minutes")


def cluster_network_folder() -> Path:
    """The folder with CoreDNS. In CI it is built when it is missing (some two minutes).

    Raises MissingComponent.
    """
    return _of(BUILD_NETWORK, "no CoreDNS", "some two minutes")


def older_kubelet_folder() -> Path:
    """The folder with a kubelet of an earlier minor version. In CI it is built when it is missing
    (some four minutes). Raises MissingComponent.
    """
    return _of(BUILD, "no older kubelet", "some four minutes", "older_kubelet")


def cluster_api_folder() -> Path:
    """The folder with Cluster API's core manager, clusterapi, and its kustomization in config.

    In CI they are built when they are missing (some two minutes). Raises MissingComponent.
    """
    return _of(BUILD_NEIGHBOUR, "no Cluster API", "some two minutes", CLUSTER_API)


def karpenter_folder() -> Path:
    """The folder with Karpenter of its kwok provider, karpenter, and its CRDs in crds.

    In CI they are built when they are missing (some four minutes). Raises MissingComponent.
    """
    return _of(BUILD_NEIGHBOUR, "no Karpenter", "some four minutes", KARPENTER)


def _of(build: Path, missing: str, time: str, *words: str) -> Path:
    found = _built(build, missing, time, *words)
    if isinstance(found, str):
        raise MissingComponent(found)
    return found


@functools.cache
def _built(build: Path, missing: str, time: str, *words: str) -> Path | str:
    """What it prints, or why there is none: a build that failed is not tried for every test."""
    where = subprocess.run([build, "--where", *words], capture_output=True, text=True, check=False)
    if where.returncode == 0:
        return Path(where.stdout.strip())
    program = " ".join((f"tests/{build.parent.name}/{build.name}", *words))
    remedy = where.stderr.strip() or f"run {program} once (Go 1.26 or later, {time})"
    if not in_ci():
        return f"{missing}: {remedy}"
    built = subprocess.run([build, *words], stdout=subprocess.PIPE, text=True, check=False)
    if built.returncode != 0:
        return f"{missing}, and it does not build (output above): {remedy}"
    return Path(built.stdout.strip().splitlines()[-1])


def check(component: str) -> None:
    """Raises MissingComponent when `component` cannot be used here.

    Known: "control-plane", "helm", "gitops", "cluster-network", "clusterapi", "karpenter",
    "older-kubelet", "hosts" (systemd-nspawn hosts: root and the packages), "images" (root and the
    packages), and every key of PACKAGES.
    """
    if component == CONTROL_PLANE:
        control_plane_folder()
    elif component == HELM:
        helm_program()
    elif component == GITOPS:
        gitops_folder()
    elif component == CLUSTER_NETWORK:
        cluster_network_folder()
    elif component == CLUSTER_API:
        cluster_api_folder()
    elif component == KARPENTER:
        karpenter_folder()
    elif component == OLDER_KUBELET:
        older_kubelet_folder()
    elif component in NEED_ROOT:
        if os.geteuid() != 0:
            raise MissingComponent(f"{component} need root: run the tests as root")
        for program in NEED_ROOT[component]:
            check(program)
    elif shutil.which(component) is None:
        raise MissingComponent(f"no {component}: apt-get install {PACKAGES[component]}")


def require(component: str) -> None:
    """Leave out the calling test, by name, when `component` is missing; in CI fail it."""
    try:
        check(component)
    except MissingComponent as missing:
        if in_ci():
            pytest.fail(f"CI must have it: {missing}", pytrace=False)
        pytest.skip(str(missing))
