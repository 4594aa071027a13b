"""The webhook of the Machine operator: kubectl, a real API server, the chart's rights, the process.

The chart calls it through a Service; here, without pods, by URL on loopback.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from support.api_objects import GOOD, changed
from support.command import started
from support.command_process import CommandProcess
from support.control_plane import ControlPlane
from support.daemons import free_port
from support.machine_world import OPERATOR, OPERATOR_GROUPS

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]
CHART = Path(__file__).parents[3] / "charts" / "kubenode" / "machine"
HOOK, PUBLISHING = CHART / "webhook.yaml", CHART / "publishing.yaml"
CONFIGURATION = "validatingwebhookconfiguration/kubenode-machine"
KINDS = "machines,machineclasses,machinesets,machinecomponents,machinecomponentsets"


def hook(cluster: ControlPlane, port: int) -> None:
    """The chart's, but asked by URL, and failing closed: an answer must be the webhook's."""
    documents = list(YAML(typ="safe").load_all(HOOK.read_text()))
    for document in documents:
        for each in document.get("webhooks", ()):
            path = each["clientConfig"]["service"]["path"]
            each["failurePolicy"] = "Fail"
            each["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}"}
    listed = {"apiVersion": "v1", "kind": "List", "items": documents}
    cluster.kubectl("apply", "-f", PUBLISHING)
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(listed))


@contextmanager
def unhooked(cluster: ControlPlane) -> Iterator[None]:
    """Nothing of it is left at the end."""
    try:
        yield
    finally:
        cluster.kubectl("delete", CONFIGURATION, "--ignore-not-found")
        cluster.kubectl("delete", "-f", PUBLISHING, "--ignore-not-found")
        secret = ("secret", "kubenode-machine-webhook", "-n", "kubenode-system")
        cluster.kubectl("delete", *secret, "--ignore-not-found")
        cluster.kubectl("delete", KINDS, "--all", "--wait=false")
        left = cluster.kubectl("get", KINDS, "-o", "name").stdout.split()
        for name in left:  # nobody runs any more who would take its finalizer off
            free = ("--type=merge", "-p", '{"metadata": {"finalizers": null}}')
            cluster.kubectl("patch", name, *free, check=False)


@pytest.fixture(scope="module")
def webhook(cluster: ControlPlane) -> Iterator[ControlPlane]:
    """The operator as a process, under the chart's rights, with its webhook asked by URL."""
    port = free_port()
    kubeconfig = cluster.kubeconfig_for(OPERATOR, OPERATOR_GROUPS)
    with unhooked(cluster):
        hook(cluster, port)
        with started(
            "run", "machine", "--kubeconfig", kubeconfig, "--health-port", "0", "--no-lease",
            "--webhook-port", str(port), "--webhook-host", "127.0.0.1", "--log-text",
        ) as process:  # fmt: skip
            answered(cluster, process)
            yield cluster


def answered(cluster: ControlPlane, process: CommandProcess) -> None:
    """Wait until the webhook answers: the authority is published, its caches are current."""
    deadline = time.monotonic() + 90
    while "denied the request" not in (said := create(cluster, nonsense())):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline, said
        time.sleep(0.2)


def nonsense() -> dict[str, Any]:
    inline = {"inline": "${nobody.knows}"}
    return dict(changed(GOOD["component"], "spec.files.0.content", inline))


def create(cluster: ControlPlane, thing: Any, *flags: str) -> str:
    """What kubectl was told: the refusal, or the warnings."""
    done = cluster.kubectl("create", "-f", "-", *flags, stdin=json.dumps(thing), check=False)
    return str(done.stderr)


def test_what_could_never_work_is_refused_with_field_and_remedy(webhook: ControlPlane) -> None:
    said = create(webhook, nonsense())
    assert 'admission webhook "machines.kubenode.io" denied the request' in said
    assert "file /etc/containerd/conf.d/10.toml: ${nobody.knows} is no placeholder" in said
    assert "write ${values.NAME}" in said


def test_a_component_in_use_stays_and_a_set_is_told_what_it_selects(webhook: ControlPlane) -> None:
    assert "Warning: spec.dependsOn: there is no component runc yet" in create(
        webhook, GOOD["component"]
    )
    assert create(webhook, GOOD["machine"]) == ""
    seen = ""
    deadline = time.monotonic() + 60
    # The webhook answers from caches: what was just written may be new to them.
    while "selects 1 of 1 machines" not in seen:
        assert time.monotonic() < deadline, seen
        seen = create(webhook, GOOD["rollout"], "--dry-run=server")
    name = GOOD["component"]["metadata"]["name"]
    gone = webhook.kubectl("delete", "knc", name, "--dry-run=server", check=False)
    assert f"{name} is on 1 machines (sh-113)" in gone.stderr


def test_a_set_of_a_class_to_come_is_let_in_with_a_warning(webhook: ControlPlane) -> None:
    said = create(webhook, GOOD["set"], "--dry-run=server")
    assert "Warning: spec.template.spec.classRef: there is no MachineClass ecs-a" in said
