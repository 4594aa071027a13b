"""Version skew of node components: never newer than the API server, at most three minors older.

Source: the version skew policy of Kubernetes for kubelet and kube-proxy.
"""

import re
from dataclasses import dataclass

from kubenode.runtime.components.versions import satisfies
from kubenode.runtime.components.wire import ComponentSpec

SKEWED = frozenset({"kubelet", "kube-proxy"})
"""Components that follow the version of the API server."""
MINORS_BEHIND = 3
_MINOR = re.compile(r"v?([0-9]+)\.([0-9]+)")


@dataclass(frozen=True, slots=True)
class ServerVersions:
    """Versions of the API servers that answered lately; "" if none did.

    During an upgrade several API servers with different versions answer.
    """

    oldest: str = ""
    newest: str = ""


def needs_server(spec: ComponentSpec) -> bool:
    """Return whether the version of the API server decides on the component."""
    return spec.component in SKEWED or bool(spec.requires.api_server)


def describe_skew(spec: ComponentSpec, servers: ServerVersions) -> str:
    """Return why the API servers rule out the component; "" if they do not."""
    named = f"{spec.component} {spec.version}"
    if not servers.oldest:
        return f"{named}: the version of the API server is unknown"
    if spec.component in SKEWED and (skew := _skew(named, spec.version, servers)):
        return skew
    required = spec.requires.api_server
    if required and not satisfies(servers.oldest, required):
        return f"{named}: it requires an API server {required}, this one is {servers.oldest}"
    return ""


def _skew(named: str, version: str, servers: ServerVersions) -> str:
    wanted, oldest, newest = map(_minor, (version, servers.oldest, servers.newest))
    if wanted is None or oldest is None or newest is None:
        return f"{named} and the API server {servers.oldest}: no versions such as 1.36.3"
    if wanted > oldest:
        return (
            f"{named} is newer than the API server {servers.oldest}: upgrade the API server first"
        )
    major, minor = newest
    least = (major, max(0, minor - MINORS_BEHIND))
    if wanted < least:
        return (
            f"{named} is more than three minor versions older than the API server"
            f" {servers.newest}: choose {least[0]}.{least[1]} or later"
        )
    return ""


def _minor(version: str) -> tuple[int, int] | None:
    """Return major and minor version. Patch versions do not count."""
    parts = _MINOR.match(version)
    return (int(parts[1]), int(parts[2])) if parts is not None else None
