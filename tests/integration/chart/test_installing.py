"""The chart on a real API server: installed, run, upgraded, taken away."""

import base64
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from support import waiting
from support.api_everything import everything
from support.chart_plane import (
    NODE,
    ChartPrograms,
    account,
    monitoring_kinds,
    only,
    ready,
    secret,
)
from support.chart_values import EVERYTHING
from support.chart_webhooks import UID, WEBHOOKS, ChartWebhook
from support.components import CONTROL_PLANE, require
from support.control_plane import ControlPlane
from support.daemons import free_port
from support.helm import CHART, NAMESPACE, Helm, Object, documents
from support.kustomize_base import BY_OPERATOR

from kubenode.cli.app import app
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.tls.certificates import new_authority

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]
PATIENCE = 120.0
RELEASE = ("kubenode", CHART, "-n", NAMESPACE)
VALUES = {"rules": {"packs": ["time"]}}
OF_KINDS = {"customresourcedefinitions", "apiservices"}
KIND = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/permits.kubenode.io"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    require(CONTROL_PLANE)
    with ControlPlane(kwok=True) as cp:
        listed = {"apiVersion": "v1", "kind": "List", "items": [NODE, *monitoring_kinds()]}
        cp.kubectl("apply", "-f", "-", stdin=json.dumps(listed))
        yield cp


@pytest.fixture(scope="module")
def here(plane: ControlPlane, helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(tmp_path_factory.mktemp("helm"), plane.kubeconfig)


def until(look: Callable[[], bool], what: str, why: Callable[[], object] = lambda: "") -> None:
    waiting.until(look, what, PATIENCE, why, every=0.2)


def as_list(objects: list[Object]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


def test_an_installation_runs_is_upgraded_and_leaves_nothing(
    plane: ControlPlane, here: Helm, tmp_path: Path
) -> None:
    """One installation for all that needs one: each takes a while."""
    pristine = everything(plane)
    here.done("install", *RELEASE, "--create-namespace", values=VALUES)
    programs_run_with_its_flags_and_rights(plane, here.rendered(VALUES), tmp_path)
    older_kinds_are_brought_up_to_date(plane, here.rendered(VALUES), tmp_path)
    an_upgrade_keeps_certificates(plane, here)
    the_webhooks_of_an_older_release_go_on(plane, here, tmp_path)
    every_field_is_known(plane, here)
    here.done("uninstall", "kubenode", "-n", NAMESPACE, "--wait")
    left = {name for name in everything(plane) - pristine if NAMESPACE not in name}
    assert {name.partition("/")[0] for name in left} <= {*OF_KINDS, *plurals()}
    kinds = here.done("show", "crds", CHART)
    plane.kubectl("delete", "--wait=false", "-f", "-", stdin=kinds, timeout=PATIENCE)
    plane.kubectl("delete", "--wait=false", "namespace", NAMESPACE, timeout=PATIENCE)
    until(
        lambda: everything(plane) == pristine,
        "nothing is left",
        lambda: everything(plane) - pristine,
    )


def plurals() -> set[str]:
    """Kinds stay, with the objects of them: helm never takes them away."""
    files = (CHART / "crds").glob("*.yaml")
    return {one["spec"]["names"]["plural"] for file in files for one in documents(file.read_text())}


def programs_run_with_its_flags_and_rights(
    plane: ControlPlane, objects: list[Object], folder: Path
) -> None:
    with ExitStack() as stack:
        programs = ChartPrograms(plane, objects, folder)
        defender = f"StatefulSet/{NAMESPACE}/kubenode-defender"
        urls = [stack.enter_context(programs.running(defender))]
        until(lambda: "ca.crt" in secret(plane, "kubenode-defender"), "there is a certificate")
        authority = secret(plane, "kubenode-defender")["ca.crt"]
        programs.authority.write_bytes(base64.b64decode(authority))
        for part in ("remedy", "machine"):
            pod = f"Deployment/{NAMESPACE}/kubenode-{part}"
            urls.append(stack.enter_context(programs.running(pod)))
        assert command(programs.arguments(f"Job/{NAMESPACE}/kubenode-rules-1")) == 0
        until(lambda: all(map(ready, urls)), "every program is ready")
        for name in ("kubenode-defender", "kubenode-remedy", "kubenode-machine"):
            assert trusted(plane, name), f"{name}: Helm writes the authority"
        assert command(programs.arguments(f"Pod/{NAMESPACE}/kubenode-test")) == 0
        second = {"--listen-port": str(free_port()), "--leader-address": "10.1.0.2"}
        others = [stack.enter_context(programs.running(defender, second))]
        for part in ("remedy", "machine"):
            pod = f"Deployment/{NAMESPACE}/kubenode-{part}"
            others.append(stack.enter_context(programs.running(pod)))
        for url in others:
            until(partial(ready, url), f"{url}: else a rollout waits for who stands by for ever")
        assert leads_to(plane) == ["10.1.0.1"]
    with programs.running(defender, second):
        until(lambda: leads_to(plane) == ["10.1.0.2"], "the Service leads to who answers")


def leads_to(plane: ControlPlane) -> list[str]:
    """Where the API server finds the webhook."""
    path = "/apis/discovery.k8s.io/v1/namespaces/kubenode-system/endpointslices"
    endpoints = plane.get(f"{path}/kubenode-defender-ipv4")["endpoints"] or []
    return [address for one in endpoints for address in one["addresses"]]


def command(words: list[str]) -> int:
    """Its exit code, run in this process: imports take longer than what it does."""
    with pytest.raises(SystemExit) as ended:
        app(words, prog_name="kubenode")
    code = ended.value.code
    return code if isinstance(code, int) else 0


def trusted(plane: ControlPlane, name: str) -> bool:
    hooks = plane.get(f"{HOOKS}/{name}")["webhooks"]
    return all(hook["clientConfig"].get("caBundle") for hook in hooks)


def older_kinds_are_brought_up_to_date(
    plane: ControlPlane, objects: list[Object], folder: Path
) -> None:
    """What the hook's Job runs, under the rights that it has; kwok runs nothing."""
    older = [{"op": "remove", "path": "/spec/names/shortNames"}]
    kind = "customresourcedefinition/permits.kubenode.io"
    plane.kubectl("patch", kind, "--type=json", "-p", json.dumps(older))
    hook = as_list([one for one in only(objects, "kubenode-crds") if one["kind"] != "Job"])
    plane.kubectl("apply", "-f", "-", stdin=hook)
    config, _ = account(plane, "kubenode-crds", folder)
    code = command(["install", f"--kubeconfig={config}"])
    plane.kubectl("delete", "-f", "-", stdin=hook)
    assert code == 0
    assert plane.get(KIND)["spec"]["names"]["shortNames"]


def an_upgrade_keeps_certificates(plane: ControlPlane, here: Helm) -> None:
    """What the programs have written into objects of the chart, and not the hook's rights."""
    keys = secret(plane, "kubenode-defender")
    hooks = plane.get(f"{HOOKS}/kubenode-defender")["webhooks"]
    here.done("upgrade", *RELEASE, values=EVERYTHING)
    assert secret(plane, "kubenode-defender") == keys
    assert plane.get(f"{HOOKS}/kubenode-defender")["webhooks"] == hooks
    assert "clusterroles//kubenode-crds" not in everything(plane)


def the_webhooks_of_an_older_release_go_on(plane: ControlPlane, here: Helm, folder: Path) -> None:
    """Its programs filled Secrets and published who signed; replicas of it still run for a while.

    Upgrades keep what Helm then makes, also with --reuse-values, until `generation` is another.
    """
    here.done("upgrade", *RELEASE, values={**VALUES, **BY_OPERATOR})
    older = {webhook: _older_authority(plane, webhook) for webhook in WEBHOOKS}
    # The older programs own what they published, which helm takes over only by force. The upgrade
    # that fails leaves a Secret of helm's; the next one still trusts both authorities.
    upgrade = ("upgrade", "kubenode", _without_certificates(folder), *RELEASE[2:])
    refused = here.run(*upgrade, values=VALUES)
    assert refused.returncode != 0 and "clientConfig.caBundle" in refused.stderr
    here.done(*upgrade, "--force-conflicts", values=VALUES)
    first = {webhook: secret(plane, webhook.secret) for webhook in WEBHOOKS}
    for webhook in WEBHOOKS:
        assert _bundles(plane, webhook) == {_authority(first[webhook]) + older[webhook]}
    for _ in range(2):
        here.done("upgrade", *RELEASE, "--reuse-values")
        for webhook in WEBHOOKS:
            assert secret(plane, webhook.secret) == first[webhook]
            assert _bundles(plane, webhook) == {_authority(first[webhook])}
    assert not [name for name in everything(plane) if "publish-ca" in name]
    every_webhook_answers(plane, here.rendered(VALUES), folder)
    second = {
        webhook.part: {webhook.values: {"certificate": {"generation": 2}}} for webhook in WEBHOOKS
    }
    here.done("upgrade", *RELEASE, "--reuse-values", values=second)
    for webhook in WEBHOOKS:
        made = secret(plane, webhook.secret)
        assert made["tls.crt"] != first[webhook]["tls.crt"]
        assert _bundles(plane, webhook) == {_authority(made) + _authority(first[webhook])}


def every_webhook_answers(plane: ControlPlane, objects: list[Object], folder: Path) -> None:
    """With the certificate of its Secret, to a caller that trusts what the configuration names."""
    programs = ChartPrograms(plane, objects, folder)
    with ExitStack() as stack:
        for webhook in sorted(WEBHOOKS, key=lambda webhook: webhook.part):  # Kube Defender first
            (bundle,) = _bundles(plane, webhook)
            port = free_port()
            kind = "StatefulSet" if webhook.part == "defender" else "Deployment"
            own = {f"--{webhook.values}-port": str(port)}
            pod = f"{kind}/{NAMESPACE}/kubenode-{webhook.part}"
            stack.enter_context(programs.running(pod, own))
            until(
                partial(answered, webhook, port, bundle), f"the webhook of {webhook.part} answers"
            )


def answered(webhook: ChartWebhook, port: int, bundle: bytes) -> bool:
    """False while the program starts. Raises SSLError for a certificate that is not trusted."""
    try:
        return webhook.review(port, bundle) == UID
    except ConnectionError:
        return False


def _without_certificates(folder: Path) -> Path:
    """The chart with the values of an older one: what --reuse-values brings has no certificates."""
    chart = folder / "older"
    shutil.copytree(CHART, chart)
    file = chart / "values.yaml"
    (values,) = documents(file.read_text())
    for webhook in WEBHOOKS:
        del values[webhook.part][webhook.values]["certificate"]
    file.write_text(json.dumps(values))
    return chart


def _older_authority(plane: ControlPlane, webhook: ChartWebhook) -> bytes:
    """The authority that an older program has written into its Secret, and published."""
    made = new_authority(timedelta(days=1), SystemClock().now()).certificate
    data = {"data": {"ca.crt": base64.b64encode(made).decode()}}
    plane.kubectl("patch", "secret", webhook.own, "-n", NAMESPACE,
                  "--type=merge", "-p", json.dumps(data))  # fmt: skip
    for path in _configurations(webhook):
        bundle = base64.b64encode(made).decode()
        patch = [
            {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": bundle}
            for index in range(len(plane.get(path)["webhooks"]))
        ]
        kind, name = path.split("/")[-2:]
        words = ("--type=json", "--field-manager=kubenode", "-p", json.dumps(patch))
        plane.kubectl("patch", kind, name, *words)
    return made


def _authority(data: Mapping[str, str]) -> bytes:
    return base64.b64decode(data["ca.crt"])


def _configurations(webhook: ChartWebhook) -> list[str]:
    """Paths of its webhook configurations."""
    kinds = [HOOKS]
    if webhook.part == "remedy":
        kinds.append(HOOKS.replace("validating", "mutating"))
    return [f"{kind}/kubenode-{webhook.part}" for kind in kinds]


def _bundles(plane: ControlPlane, webhook: ChartWebhook) -> set[bytes]:
    """What callers of the webhooks of a program trust."""
    hooks = [hook for path in _configurations(webhook) for hook in plane.get(path)["webhooks"]]
    return {base64.b64decode(hook["clientConfig"].get("caBundle", "")) for hook in hooks}


def every_field_is_known(plane: ControlPlane, here: Helm) -> None:
    """By the API server's strict validation: none is unknown or there twice.

    A dry run creates no namespaces, so that an upgrade creates those of all programs first.
    """
    here.done("upgrade", *RELEASE, values=EVERYTHING)
    how = ("--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict")
    plane.kubectl("apply", *how, "-f", "-", stdin=as_list(here.rendered(EVERYTHING)))
