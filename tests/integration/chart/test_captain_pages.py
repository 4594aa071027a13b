"""What the chart renders for the pages of Captain."""

import pytest
from support.chart_values import EVERYTHING
from support.helm import Helm, Object, ident, pod_specs

pytestmark = pytest.mark.integration

CAPTAIN = "Deployment/kubenode-system/kubenode-captain"
CAPTAIN_SERVICE = "Service/kubenode-system/kubenode-captain"
PAGES_RIGHTS = (
    "ClusterRole//kubenode-captain-dashboard",
    "Role/kubenode-system/kubenode-captain-dashboard",
)


def test_captain_without_pages_has_no_port_and_no_right_for_them(helm: Helm) -> None:
    objects = {ident(one): one for one in helm.rendered({"captain": {"enabled": True}})}
    [container] = dict(pod_specs(list(objects.values())))[CAPTAIN]["containers"]
    assert not [word for word in container["args"] if "dashboard" in word]
    assert [port["name"] for port in container["ports"]] == ["metrics"]
    assert {CAPTAIN_SERVICE, *PAGES_RIGHTS}.isdisjoint(objects)
    assert open_ports(objects) == {8090}


def open_ports(objects: dict[str, Object]) -> set[int]:
    policy = objects["NetworkPolicy/kubenode-system/kubenode-captain"]["spec"]
    return {port["port"] for rule in policy["ingress"] for port in rule["ports"]}


def test_pages_of_captain_have_a_service_tls_and_a_key_that_replicas_share(helm: Helm) -> None:
    objects = {ident(one): one for one in helm.rendered(EVERYTHING)}
    pod = dict(pod_specs(list(objects.values())))[CAPTAIN]
    [container] = pod["containers"]
    for word in (
        "--dashboard-port=8091",
        "--dashboard-key-file=/etc/kubenode/dashboard/key",
        "--tls-cert-file=/etc/kubenode/certificate/tls.crt",
        "--tls-key-file=/etc/kubenode/certificate/tls.key",
    ):
        assert word in container["args"]
    assert "--plain-http" not in container["args"]
    for name, secret in (("dashboard", "captain-key"), ("certificate", "captain-tls")):
        assert {"name": name, "secret": {"secretName": secret}} in pod["volumes"]
    assert {"name": "dashboard", "containerPort": 8091} in container["ports"]
    service = objects[CAPTAIN_SERVICE]["spec"]
    assert service["ports"] == [{"name": "https", "port": 443, "targetPort": "dashboard"}]
    assert objects[CAPTAIN]["spec"]["selector"]["matchLabels"] == service["selector"]
    assert open_ports(objects) == {8090, 8091}
    assert set(PAGES_RIGHTS) <= set(objects)


def test_pages_of_captain_behind_a_mesh_are_plain_and_of_one_replica(helm: Helm) -> None:
    pages = {"enabled": True, "plainHttp": True}
    values = {"captain": {"enabled": True, "replicas": 1, "dashboard": pages}}
    objects = {ident(one): one for one in helm.rendered(values)}
    [container] = dict(pod_specs(list(objects.values())))[CAPTAIN]["containers"]
    assert "--plain-http" in container["args"]
    assert objects[CAPTAIN_SERVICE]["spec"]["ports"][0]["port"] == 80


@pytest.mark.parametrize(
    ("pages", "message"),
    [
        ({"keySecret": "key"}, "captain.dashboard.certificateSecret"),
        ({"certificateSecret": "tls"}, "captain.dashboard.keySecret"),
        ({"certificateSecret": "tls", "key": "x"}, "key"),
    ],
)
def test_pages_of_captain_that_are_not_safe_or_do_not_work_are_refused(
    helm: Helm, pages: Object, message: str
) -> None:
    assert message in helm.refused(
        {"captain": {"enabled": True, "dashboard": {"enabled": True, **pages}}}
    )
