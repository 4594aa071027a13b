"""`kubenode doctor`: checks whether KubeNode can work in a cluster, and says what to do."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from kubenode.cli.cluster import connected, crds
from kubenode.cli.doctor_checks import (
    AccessRight,
    CheckResult,
    CheckState,
    WebhookState,
    check_agents,
    check_clocks,
    check_definitions,
    check_detectors,
    check_programs,
    check_receivers,
    check_rights,
    check_rules,
    check_version,
    check_webhooks,
    is_problem,
)
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.fleet_state import FleetState, read_state
from kubenode.cli.options import ReportFormat
from kubenode.cli.receivers_file import received
from kubenode.cli.tables import show_report, table
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Forbidden, NotFound

GROUP = paths.GROUP
RIGHTS = (
    *(
        AccessRight("list", GROUP, resource, "kubenode-viewer")
        for resource in ("noderemediers", "remedyoperationjobs", "defenderpolicies", "permits")
    ),
    AccessRight("list", "", "nodes", "kubenode-viewer"),
    AccessRight("list", "", "events", "kubenode-viewer"),
    AccessRight("patch", GROUP, "remedyoperationjobs", "kubenode-approver"),
    AccessRight("create", GROUP, "remedyoperationjobs", "kubenode-operator"),
    AccessRight("patch", GROUP, "defenderpolicies", "kubenode-operator"),
)
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
WEBHOOKS = (
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
)
OWN_WEBHOOKS = ("kubenode-remedy", "kubenode-machine", "kubenode-defender")


async def doctor_command(
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    receivers_file: str | None,
    output: ReportFormat,
) -> Exit:
    """Print the checks. Return FINDING if there is a problem."""
    outside = received(receivers_file)
    receivers = None if outside is None else frozenset(outside.receivers)
    async with connected(kubeconfig, context) as kube:
        results = await examine(kube, namespace, receivers)
    show_report([asdict(result) for result in results], output, lambda: lines(results))
    has_problem = any(result.state is CheckState.PROBLEM for result in results)
    return Exit.FINDING if has_problem else Exit.FINE


async def examine(
    kube: Kube, namespace: str, receivers: frozenset[str] | None
) -> list[CheckResult]:
    """Read the cluster and return the result of each check; writes nothing."""
    version = await kube.get("/version")
    results = [
        check_version(version if isinstance(version, Mapping) else {}),
        *check_rights({right: await _is_allowed(kube, right) for right in RIGHTS}),
        *check_definitions(crds(), await _definitions(kube)),
    ]
    try:
        state = await read_state(kube, namespace)
    except (Refusal, Forbidden) as error:
        remedy = "fix the problems above and run `kubenode doctor` again: the other checks need it"
        return [*results, is_problem("objects", str(error), remedy)]
    return [*results, *judge(state, await _webhooks(kube), receivers)]


def judge(
    state: FleetState,
    webhooks: Sequence[WebhookState] | None,
    receivers: frozenset[str] | None,
) -> list[CheckResult]:
    """Check what the cluster's objects say. Pure."""
    return [
        *check_programs(state),
        *check_webhooks(webhooks),
        check_agents(state),
        check_clocks(state),
        check_receivers(state.rules.values(), receivers),
        *check_detectors(state),
        *check_rules(state),
    ]


def lines(results: Sequence[CheckResult]) -> list[str]:
    """Render a line for each check, a further one with what to do, and the counts."""
    output: list[str] = []
    rows = table(["STATE", "CHECK", "RESULT"], [[r.state, r.check, r.text] for r in results])
    for row, result in zip(rows[1:], results, strict=True):
        output += [row, *([f"         -> {result.remedy}"] if result.remedy else [])]
    counts = Counter(result.state for result in results)
    output.append("")
    output.append(", ".join(f"{counts[state]} {state}" for state in CheckState))
    return [rows[0], *output]


async def _is_allowed(kube: Kube, right: AccessRight) -> bool:
    attributes = {"verb": right.verb, "group": right.group, "resource": right.resource}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    try:
        answer = await kube.create(REVIEWS, body)
    except NotFound:  # an API server without authorization lets everyone do everything
        return True
    status = answer.get("status") if isinstance(answer, Mapping) else None
    return isinstance(status, Mapping) and bool(status.get("allowed"))


async def _definitions(kube: Kube) -> dict[str, dict[str, Any] | None] | None:
    """Read our CustomResourceDefinitions; None if that is forbidden."""
    live: dict[str, dict[str, Any] | None] = {}
    for name in (crd["metadata"]["name"] for crd in crds()):
        try:
            live[name] = await kube.get(paths.custom_resource_definition(name))
        except NotFound:
            live[name] = None
        except Forbidden:
            return None
    return live


async def _webhooks(kube: Kube) -> list[WebhookState] | None:
    """Read the webhooks of ours that are registered; None if that is forbidden."""
    states = []
    for path in WEBHOOKS:
        for name in OWN_WEBHOOKS:
            try:
                configuration = await kube.get(f"{path}/{name}")
            except NotFound:
                continue
            except Forbidden:
                return None
            for webhook in configuration.get("webhooks") or ():
                states.append(await _webhook(kube, name, webhook))
    return states


async def _webhook(kube: Kube, configuration: str, webhook: Mapping[str, Any]) -> WebhookState:
    client = webhook.get("clientConfig") or {}
    service = client.get("service")
    trusted = bool(client.get("caBundle")) or service is None
    if service is None:
        return WebhookState(configuration, webhook["name"], "", None, trusted)
    namespace, name = service["namespace"], service["name"]
    ready = await _ready_endpoints(kube, namespace, name)
    return WebhookState(configuration, webhook["name"], f"{namespace}/{name}", ready, trusted)


async def _ready_endpoints(kube: Kube, namespace: str, service: str) -> int | None:
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    query = {"labelSelector": f"kubernetes.io/service-name={service}"}
    try:
        slices: Iterable[Mapping[str, Any]] = (await kube.get(path, query=query))["items"]
    except (NotFound, Forbidden):
        return None
    return sum(
        (endpoint.get("conditions") or {}).get("ready") is not False
        for each in slices
        for endpoint in each.get("endpoints") or ()
    )
