"""What the chart renders to, for the choices that matter; no cluster is needed."""

import base64
import json
import subprocess
import tomllib
from pathlib import Path

import pytest
import typer.main
from cryptography import x509
from support.chart_values import CERTIFICATES, CHOICES, EVERYTHING
from support.chart_webhooks import WEBHOOKS, ChartWebhook
from support.components import CONTROL_PLANE, require
from support.control_plane import kubectl_command
from support.helm import CHART, Helm, Object, documents, ident, is_hook, pod_specs
from support.idle_rights import IDLE
from support.kustomize_base import BY_OPERATOR, written
from support.named_tests import missing
from support.rule_authors import EXAMPLE, grants_of, with_grants
from support.used_rights import given

from kubenode.cli.app import app
from kubenode.runtime.tls.certificates import Pair
from kubenode.runtime.tls.context import LiveContext

pytestmark = pytest.mark.integration

DASHBOARD: Object = {"enabled": True, "keySecret": "k"}
SLICE = "EndpointSlice"
INJECTED = "cert-manager.io/inject-ca-from"

choices = pytest.mark.parametrize("values", CHOICES.values(), ids=CHOICES)


def flags_hold(arguments: list[str]) -> None:
    """Raises click's UsageError for a flag or a value that the command does not take."""
    command = typer.main.get_command(app)
    words = list(arguments)
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    command.make_context("kubenode", words).close()


@choices
def test_each_object_is_there_once_and_every_pod_is_confined(helm: Helm, values: Object) -> None:
    objects = helm.rendered(values)
    names = [ident(found) for found in objects]
    assert len(names) == len(set(names))
    assert "Namespace//kubenode-agents" in names and "Namespace//kubenode-components" in names
    for name, spec in pod_specs(objects):
        if name.startswith("DaemonSet/"):
            continue  # an agent repairs its host
        # The variable KUBENODE_HOST_DOCTOR_PORT of a Service would be taken for a setting.
        assert spec["enableServiceLinks"] is False, name
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        for container in spec["containers"]:
            confined = container["securityContext"]
            assert confined["readOnlyRootFilesystem"] is True, name
            assert confined["capabilities"] == {"drop": ["ALL"]}, name
            assert confined["allowPrivilegeEscalation"] is False, name
            flags_hold(container["args"])


def test_grants_of_rule_authors_are_written_line_by_line_and_only_if_wanted(helm: Helm) -> None:
    assert [one for one in helm.rendered({}) if "rule-authors" in ident(one)] == []
    objects = {ident(one): one for one in helm.rendered(EVERYTHING)}
    name = "ValidatingAdmissionPolicy//kubenode-rule-authors"
    wanted = json.loads(with_grants(EXAMPLE))["items"]
    assert grants_of(objects[name]) == grants_of(wanted[0])
    for one in (objects[name], wanted[0]):
        one["spec"]["variables"] = one["spec"]["variables"][1:]
    assert [objects[ident(one)] for one in wanted] == wanted
    assert "ValidatingAdmissionPolicyBinding//kubenode-rule-authors" in objects


@pytest.mark.parametrize(
    "grant",
    [
        {"modes": ["DryRun"], "steps": ["*"], "nodes": ["*"]},
        {"groups": ["a"], "modes": ["Enforced"], "steps": ["*"], "nodes": ["*"]},
        {"groups": ["a"], "modes": ["*"], "steps": ["agent/Run/../x y"], "nodes": ["*"]},
        {"groups": ["a"], "modes": ["*"], "steps": ["*"], "nodes": ["pool"]},
        {"groups": ["a"], "modes": ["*"], "steps": [], "nodes": ["*"]},
        {"groups": ["a\nb"], "modes": ["*"], "steps": ["*"], "nodes": ["*"]},
    ],
    ids=["nobody", "mode", "step", "node", "empty", "two lines"],
)
def test_a_grant_that_says_nothing_clear_is_refused(helm: Helm, grant: Object) -> None:
    said = helm.refused({"ruleAuthors": {"enabled": True, "grants": {"team": grant}}})
    assert "ruleAuthors/grants/team" in said.replace(".", "/")


@pytest.mark.parametrize(
    ("part", "values"),
    [("remedy", {"enabled": False}), ("machine", {"enabled": False}), ("agent", {})],
)
def test_a_program_that_is_switched_off_leaves_nothing(
    helm: Helm, part: str, values: dict[str, bool]
) -> None:
    objects = helm.rendered({part: values, "rules": {"packs": []}})
    pods = [name for name, _ in pod_specs(objects)]
    assert not [name for name in pods if name.endswith(f"kubenode-{part}")]
    if values:
        assert f"ClusterRole//kubenode-{part}" not in map(ident, objects)


def test_what_the_files_say_is_what_is_installed(helm: Helm) -> None:
    # Else Helm writes into the files.
    values = {part: {**EVERYTHING.get(part, {}), **BY_OPERATOR[part]} for part in BY_OPERATOR}
    there = {ident(found): found for found in helm.rendered({**EVERYTHING, **values})}
    files = [CHART / "people.yaml"]
    for part in ("agent", "remedy", "defender", "machine", "captain"):
        files += sorted((CHART / part).glob("*.yaml"))
    files.remove(CHART / "defender" / "leader.yaml")  # with Redis every replica answers
    files.remove(CHART / "remedy" / "authors.yaml")  # its grants are values: compared above
    for file in files:
        for wanted in documents(file.read_text()):
            if wanted["kind"] not in ("DaemonSet", "ConfigMap"):
                assert there[ident(wanted)] == wanted, file


def test_the_service_leads_to_who_answers(helm: Helm) -> None:
    """Without Redis that is the leader, who writes its address into slices; else every replica."""
    alone = {ident(found): found for found in helm.rendered({"defender": {"dashboard": DASHBOARD}})}
    for wanted in documents((CHART / "defender" / "leader.yaml").read_text()):
        assert alone[ident(wanted)] == wanted
    services = ("kubenode-defender", "kubenode-dashboard")
    for service in (f"Service/kubenode-system/{name}" for name in services):
        assert "selector" not in alone[service]["spec"], service
    (rule,) = (
        rule
        for rule in alone["Role/kubenode-system/kubenode-defender"]["rules"]
        if rule["resources"] == ["endpointslices"]
    )
    slices = {found["metadata"]["name"] for found in alone.values() if found["kind"] == SLICE}
    assert set(rule["resourceNames"]) == slices
    shared = {ident(found): found for found in helm.rendered(EVERYTHING)}
    assert [found for found in shared.values() if found["kind"] == SLICE] == []
    for service in (f"Service/kubenode-system/{name}" for name in services):
        assert shared[service]["spec"]["selector"], service


def test_with_cert_manager_each_secret_is_its_own_and_each_webhook_trusts_what_it_signs(
    helm: Helm,
) -> None:
    objects = helm.rendered(CERTIFICATES)
    made = {one["spec"]["secretName"]: one for one in objects if one["kind"] == "Certificate"}
    without = helm.rendered({**CERTIFICATES, "certManager": {"enabled": False}})
    ours = {one["metadata"]["name"] for one in without if one["kind"] == "Secret"}
    # cert-manager's certificate of Kube Defender's API is that of its webhook too.
    assert set(made) == {name.removesuffix("-tls") for name in ours} - {"kubenode-defender-guard"}
    assert [ident(one) for one in objects if one["kind"] == "Secret"] == []
    for hook in (one for one in objects if one["kind"].endswith("WebhookConfiguration")):
        space, _, name = hook["metadata"]["annotations"][INJECTED].partition("/")
        assert space == "kubenode-system"
        for each in hook["webhooks"]:
            service = each["clientConfig"]["service"]["name"]
            assert f"{service}.kubenode-system.svc" in made[name]["spec"]["dnsNames"]


def test_only_a_program_that_publishes_its_own_authority_may_patch_its_webhook(helm: Helm) -> None:
    """None by default, with cert-manager and without webhooks; each with `source: Operator`."""
    off = {"enabled": False}
    for values in (
        {},
        {"certManager": CERTIFICATES["certManager"]},
        {
            "remedy": {"webhook": off},
            "machine": {"webhook": off},
            "defender": {"guard": off},
        },
    ):
        objects = helm.rendered(values)
        assert [r for r in given(objects) if r.group == "admissionregistration.k8s.io"] == []
        assert [ident(one) for one in objects if "publish-ca" in ident(one)] == []
    for part, values in BY_OPERATOR.items():
        rights = given(helm.rendered({part: values}))
        accounts = {r.account for r in rights if r.resource.endswith("configurations")}
        assert accounts == {f"kubenode-system/kubenode-{part}"}


each_webhook = pytest.mark.parametrize("webhook", WEBHOOKS, ids=lambda webhook: webhook.part)


@each_webhook
def test_helm_signs_for_each_webhook(helm: Helm, webhook: ChartWebhook) -> None:
    """One authority in every configuration, which signed what the pod has; its key is nowhere."""
    objects = helm.rendered({})
    secret = webhook.secrets(objects)[webhook.secret]
    data = {key: base64.b64decode(text) for key, text in secret["data"].items()}
    assert set(data) == {"ca.crt", "tls.crt", "tls.key"}
    assert {base64.b64decode(text) for text in webhook.bundles(objects)} == {data["ca.crt"]}
    authority, leaf = (x509.load_pem_x509_certificate(data[k]) for k in ("ca.crt", "tls.crt"))
    leaf.verify_directly_issued_by(authority)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert f"{webhook.service}.kubenode-system.svc" in names.get_values_for_type(x509.DNSName)
    assert (leaf.not_valid_after_utc - leaf.not_valid_before_utc).days >= 3649
    context = LiveContext()
    context.load(Pair(data["tls.crt"], data["tls.key"]))
    spec, folder = webhook.pod(objects), webhook.values
    assert {"name": folder, "secret": {"secretName": webhook.secret}} in spec["volumes"]
    words = spec["containers"][0]["args"]
    assert f"--{folder}-cert-file=/etc/kubenode/{folder}/tls.crt" in words
    assert f"--{folder}-key-file=/etc/kubenode/{folder}/tls.key" in words


def test_named_secrets_render_the_same_each_time(helm: Helm) -> None:
    """As GitOps needs it: without a cluster there is nothing to look up."""
    bundle = "-----BEGIN CERTIFICATE-----"
    values: Object = {}
    for webhook in WEBHOOKS:
        values |= webhook.certificate(existingSecret=f"our-{webhook.part}", caBundle=bundle)
    objects = helm.rendered(values)
    assert objects == helm.rendered(values)
    for webhook in WEBHOOKS:
        assert webhook.bundles(objects) == {base64.b64encode(bundle.encode()).decode()}
        assert webhook.secret not in webhook.secrets(objects)
        mounted = {"name": webhook.values, "secret": {"secretName": f"our-{webhook.part}"}}
        assert mounted in webhook.pod(objects)["volumes"]


@each_webhook
def test_a_program_makes_its_certificate_only_where_the_values_say_so(
    helm: Helm, webhook: ChartWebhook
) -> None:
    objects = helm.rendered(webhook.certificate(source="Operator"))
    assert set(webhook.secrets(objects)) == {webhook.own}
    assert webhook.bundles(objects) == {""}
    assert f"ClusterRole//kubenode-{webhook.part}-publish-ca" in map(ident, objects)
    assert "-cert-file" not in "".join(webhook.pod(objects)["containers"][0]["args"])


def test_no_caller_shows_its_full_token(helm: Helm) -> None:
    """Kube Defender and Host Doctor get tokens that the API server refuses."""
    askers = 0
    for name, spec in pod_specs(helm.rendered(EVERYTHING)):
        (container,) = spec["containers"]
        words = [
            *container.get("args", ()),
            *(one.get("value", "") for one in container.get("env", ())),
        ]
        if name.endswith("kubenode-agent"):
            env = {one["name"]: one.get("value") for one in container["env"]}
            assert env["KUBENODE_AGENT_OPERATOR_TOKEN_FILE"].endswith("/host-doctor-token")
            assert _tokens(spec) == {"token": "", "host-doctor-token": "kubenode-host-doctor"}
            continue
        assert not [w for w in words if "/var/run/secrets/kubernetes.io" in w], name
        if shown := [w for w in words if "token-file=/etc/kubenode/defender/token" in w]:
            assert len(shown) == 1
            assert _tokens(spec) == {"token": "kubenode-defender"}
            askers += 1
        if name.endswith("/kubenode-defender"):
            assert "--token-audience=kubenode-defender" in words
        if name.endswith("/kubenode-remedy"):
            assert "--host-doctor-token-audience=kubenode-host-doctor" in words
    assert askers == 4, "remedy, machine, autoscaler and the test"


def _tokens(spec: Object) -> dict[str, str]:
    """Path and audience of the projected tokens of a pod; "" is the API server."""
    sources = [
        s for volume in spec["volumes"] for s in volume.get("projected", {}).get("sources", ())
    ]
    found = [s["serviceAccountToken"] for s in sources if "serviceAccountToken" in s]
    return {one["path"]: one.get("audience", "") for one in found}


def test_the_agent_has_the_image_and_the_settings_of_the_values(helm: Helm) -> None:
    there = {ident(found): found for found in helm.rendered(EVERYTHING)}
    wanted = documents((CHART / "agent" / "daemonset.yaml").read_text())
    agents = there["DaemonSet/kubenode-agents/kubenode-agent"]
    (container,) = agents["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"images.example/kubenode@sha256:{'a' * 64}"
    before = wanted[0]["spec"]["template"]["spec"]
    assert container["env"] == before["containers"][0]["env"]
    assert agents["spec"]["template"]["spec"]["volumes"] == before["volumes"]
    settings = there["ConfigMap/kubenode-agents/kubenode-agent"]
    assert settings["data"] == {"agent.toml": 'log_level = "debug"\n'}


@pytest.mark.parametrize(
    ("own", "image"),
    [
        ({"repository": "images.example/agent"}, "images.example/agent:0.1.0"),
        ({"repository": "images.example/agent", "tag": "x"}, "images.example/agent:x"),
        (
            {"repository": "images.example/agent", "tag": "x", "digest": f"sha256:{'b' * 64}"},
            f"images.example/agent@sha256:{'b' * 64}",
        ),
    ],
)
def test_the_agent_can_have_an_image_of_its_own(
    helm: Helm, own: dict[str, str], image: str
) -> None:
    objects = helm.rendered({**EVERYTHING, "agent": {"enabled": True, "image": own}})
    images = {name: spec["containers"][0]["image"] for name, spec in pod_specs(objects)}
    assert images.pop("DaemonSet/kubenode-agents/kubenode-agent") == image
    assert set(images.values()) == {f"images.example/kubenode@sha256:{'a' * 64}"}


def test_alerts_and_dashboards_are_those_of_the_files(helm: Helm) -> None:
    objects = helm.rendered(EVERYTHING)
    for kind, folder, ending in (
        ("PrometheusRule", "alerts", ".yaml"),
        ("ConfigMap", "dashboards", ".json"),
    ):
        names = {path.name.removesuffix(ending) for path in (CHART / folder).iterdir()}
        found = [one["metadata"]["name"] for one in objects if one["kind"] == kind]
        for name in names:
            assert any(name in one for one in found), (kind, name)
    rules = [one for one in objects if one["kind"] == "PrometheusRule"]
    links = [
        alert["annotations"]["runbook_url"]
        for one in rules
        for group in one["spec"]["groups"]
        for alert in group["rules"]
        if "alert" in alert
    ]
    assert links and all(link.startswith("https://runbooks.example/docs/") for link in links)


def test_whoever_asks_kube_defender_names_every_replica(helm: Helm) -> None:
    for name, spec in pod_specs(helm.rendered({"defender": {"replicas": 3}})):
        for argument in spec["containers"][0].get("args", ()):
            if argument.startswith("--defender-url="):
                assert argument.count("https://kubenode-defender-") == 3, name


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"defender": {"enabled": False}}, "do nothing without Kube Defender"),
        ({"remedy": {"hostDoctor": {"enabled": True}}}, "remedy.hostDoctor.tokensSecret"),
        ({"remedy": {"enabled": False}, "rules": {"packs": ["gpu"]}}, "set remedy.enabled=true"),
        ({"remedy": {"replica": 2}}, "replica"),
        ({"defender": {"redis": {"url": "http://redis"}}}, "redis"),
        ({"rules": {"mode": "enforce"}}, "mode"),
        ({"image": {"digest": "latest"}}, "digest"),
        ({"certManager": {"enabled": True}}, "certManager.issuer.name"),
        *(
            (
                webhook.certificate(existingSecret="ours"),
                f"{webhook.part}.{webhook.values}.certificate: existingSecret and caBundle belong",
            )
            for webhook in WEBHOOKS
        ),
    ],
)
def test_values_that_would_not_work_are_refused_by_name(
    helm: Helm, values: dict[str, object], why: str
) -> None:
    assert why in helm.refused(values)


def test_another_namespace_is_refused(helm: Helm) -> None:
    assert "--namespace kubenode-system" in helm.refused({}, "default")


def test_the_chart_has_the_version_of_the_project() -> None:
    project = tomllib.loads((CHART.parents[1] / "pyproject.toml").read_text())["project"]
    (chart,) = documents((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == project["version"]


def test_helm_finds_nothing_to_complain_of(helm: Helm) -> None:
    told = helm.done("lint", "--strict", CHART, "-n", "kubenode-system")
    assert "0 chart(s) failed" in told


def test_what_excuses_a_right_is_there(helm: Helm) -> None:
    """tests/e2e/test_newcomers_path.py compares rights with what the audit log has of their use."""
    rights = given(helm.rendered(EVERYTHING))
    assert [row for row in IDLE if not any(map(row.excuses, rights))] == []
    named = "".join(f"`tests/integration/{row.test}`" for row in IDLE)
    assert missing(named, CHART.parents[1]) == []


def test_every_kind_can_be_brought_up_to_date(helm: Helm) -> None:
    """The hook of an upgrade names each definition that it may change."""
    files = (CHART / "crds").iterdir()
    kinds = {one["metadata"]["name"] for path in files for one in documents(path.read_text())}
    (role,) = [one for one in helm.rendered({}) if ident(one) == "ClusterRole//kubenode-crds"]
    named = {name for rule in role["rules"] for name in rule.get("resourceNames", ())}
    assert named == kinds


def test_what_kustomize_reads_is_as_the_chart_is(helm: Helm) -> None:
    """Else run `PYTHONPATH=tests python -m support.kustomize_base`."""
    for path, text in written(helm).items():
        assert path.read_text() == text, path


def test_kustomize_installs_what_helm_installs(helm: Helm, tmp_path: Path) -> None:
    """All but hooks, with the namespace and the kinds."""
    require(CONTROL_PLANE)
    command, environment = kubectl_command(Path("/dev/null"), "kustomize", CHART, home=tmp_path)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    plain = {ident(one) for one in documents(done.stdout)}
    kinds = {ident(one) for one in documents(helm.done("show", "crds", CHART))}
    charted = {ident(one) for one in helm.rendered(BY_OPERATOR) if not is_hook(one)}
    assert plain == kinds | charted | {"Namespace//kubenode-system"}


def test_insight_stores_in_the_database_of_its_secret_or_on_a_volume(helm: Helm) -> None:
    given = {**EVERYTHING["insight"], "databaseSecret": "postgresql"}
    for values, flag, claims in (
        (EVERYTHING["insight"], "--database-url=sqlite:////var/lib/kubenode/insight.db", 1),
        (given, "--database-url-file=/etc/kubenode/database/url", 0),
    ):
        objects = helm.rendered({"insight": values})
        pods = dict(pod_specs(objects))
        [container] = pods["Deployment/kubenode-system/kubenode-insight"]["containers"]
        assert flag in container["args"]
        assert len([one for one in objects if one["kind"] == "PersistentVolumeClaim"]) == claims


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"certificateSecret": "tls"}, "insight.tokensSecret"),
        ({"tokensSecret": "t"}, "insight.certificateSecret"),
    ],
)
def test_insight_that_anybody_could_read_is_refused(
    helm: Helm, values: Object, message: str
) -> None:
    assert message in helm.refused({"insight": {"enabled": True, **values}})


def test_the_autoscaler_provider_proves_itself_and_has_its_rights_and_its_policy(
    helm: Helm,
) -> None:
    secret = {"autoscaler": {"enabled": True, "certificateSecret": "autoscaler-tls"}}
    objects = helm.rendered(secret)
    [container] = dict(pod_specs(objects))["Deployment/kubenode-system/kubenode-autoscaler"][
        "containers"
    ]
    assert container["args"][:2] == ["run", "autoscaler-provider"]
    assert "--autoscaler-ca-file=/etc/kubenode/autoscaler/ca.crt" in container["args"]
    names = {ident(one) for one in objects}
    assert "ClusterRole//kubenode-autoscaler" in names
    assert "ValidatingAdmissionPolicyBinding//kubenode-autoscaler" in names
    assert not {name for name in map(ident, helm.rendered({})) if "autoscaler" in name}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"autoscaler": {"enabled": True}}, "autoscaler.certificateSecret"),
        (
            {
                "autoscaler": {"enabled": True, "certificateSecret": "tls"},
                "machine": {"enabled": False},
            },
            "machine.enabled=true",
        ),
    ],
)
def test_an_autoscaler_provider_that_could_not_work_is_refused(
    helm: Helm, values: Object, message: str
) -> None:
    assert message in helm.refused(values)
