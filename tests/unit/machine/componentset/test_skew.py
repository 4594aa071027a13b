"""A kubelet or kube-proxy is never newer than the API server, nor more than three minors older."""

import pytest

from kubenode.runtime.components.wire import ComponentSpec, WireComponentSource, WireRequires
from machine.componentset.skew import ServerVersions, describe_skew, needs_server

NEWER = "is newer than the API server {}: upgrade the API server first"
OLDER = "is more than three minor versions older than the API server {}: choose {} or later"


def a_spec(component: str, version: str, requires: str = "") -> ComponentSpec:
    needs = WireRequires(api_server=requires)
    return ComponentSpec(component, version, WireComponentSource("script"), needs)


@pytest.mark.parametrize("component", ["kubelet", "kube-proxy"])
@pytest.mark.parametrize(
    ("version", "oldest", "newest", "text"),
    [
        ("1.31.0", "v1.30.4", "v1.30.4", NEWER.format("v1.30.4")),
        ("1.31.0", "v1.30.4", "v1.31.1", NEWER.format("v1.30.4")),
        ("1.30.9", "v1.30.4", "v1.30.4", ""),
        ("1.30.0-1.1", "v1.31.0", "v1.31.0", ""),
        ("v1.36.3", "v1.36.3+k3s1", "v1.36.3+k3s1", ""),
        ("1.33.0", "v1.36.3", "v1.36.3", ""),
        ("1.32.9", "v1.36.3", "v1.36.3", OLDER.format("v1.36.3", "1.33")),
        ("1.33.0", "v1.36.3", "v1.37.0", OLDER.format("v1.37.0", "1.34")),
        ("1.36.3", "v2.0.0", "v2.0.0", OLDER.format("v2.0.0", "2.0")),
    ],
)
def test_f39_skew_is_refused_with_both_versions_and_a_remedy(
    component: str, version: str, oldest: str, newest: str, text: str
) -> None:
    skew = describe_skew(a_spec(component, version), ServerVersions(oldest, newest))
    assert skew == (f"{component} {version} {text}" if text else "")


def test_f39_an_unknown_api_server_or_version_is_refused() -> None:
    kubelet = a_spec("kubelet", "1.36.3")
    assert "unknown" in describe_skew(kubelet, ServerVersions())
    assert "no versions" in describe_skew(
        a_spec("kubelet", "main"), ServerVersions("v1.36.3", "v1.36.3")
    )
    assert "no versions" in describe_skew(kubelet, ServerVersions("devel", "devel"))


def test_another_component_is_bound_by_its_own_requirement_alone() -> None:
    servers = ServerVersions("v1.30.4", "v1.30.4")
    assert not needs_server(a_spec("containerd", "2.4.2"))
    assert describe_skew(a_spec("cni", "9.9.9", ">=1.30"), servers) == ""
    refused = describe_skew(a_spec("cni", "9.9.9", ">=1.31"), servers)
    assert refused == "cni 9.9.9: it requires an API server >=1.31, this one is v1.30.4"
