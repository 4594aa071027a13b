"""Captain's pages by `kubenode run captain`: real logins, rights of the chart, real admission."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.chart_rights import ACCOUNT_GROUPS, account
from support.command import kubenode
from support.components import CONTROL_PLANE, require
from support.control_plane import ControlPlane
from support.daemons import free_port
from support.helm import CHART
from support.programs import Program
from support.release_world import make_release, make_rule, make_stage
from support.running import until
from support.site_session import browser, log_in, post
from support.waiting import until as until_soon

from kubenode.api.v1alpha1.release import ReleaseState
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Forbidden
from kubenode.runtime.kube.official import connect_as
from kubenode.runtime.release_control import approve_stage, change_state

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]
SPACE, NAME, PATIENCE = "captain-people", "pages", 150.0
ROLES = {
    "rita": "kubenode-viewer",
    "max": "kubenode-release-manager",
    "ann": "kubenode-release-approver",
    "eve": "",
}
"""Service accounts that log in, and their roles of the chart's people.yaml."""
RELEASE = paths.custom("releases", NAME)
SIGN_OUTS = paths.resource(
    "/api/v1", "configmaps", namespace="kubenode-system", name="kubenode-captain-signouts"
)


def user_of(name: str) -> str:
    return f"system:serviceaccount:{SPACE}:{name}"


def apply(cp: ControlPlane, *objects: dict[str, Any]) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    cp.kubectl("apply", "-f", "-", stdin=json.dumps(listed))


def build_object(kind: str, spec: dict[str, Any], **labels: str) -> dict[str, Any]:
    metadata = {"name": NAME, "labels": labels}
    return {"apiVersion": "kubenode.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def build_objects() -> list[dict[str, Any]]:
    """A release of one stage, which waits for its approval before any cluster is written to."""
    release = make_release(make_rule(), name=NAME, pipelineRef=NAME).to_dict()
    stages = [make_stage(NAME, approval="Before")]
    return [
        build_object("MemberCluster", {"kubeconfigRef": NAME}, stage=NAME),
        build_object("ReleasePipeline", {"stages": stages}),
        build_object("Release", release["spec"]),
    ]


@pytest.fixture(scope="module")
def tokens(control_plane: ControlPlane) -> Iterator[dict[str, str]]:
    """A token of each of ROLES, in a cluster with the rights and policies of the chart."""
    require(CONTROL_PLANE)
    installed = kubenode("install", "--kubeconfig", control_plane.kubeconfig)
    assert installed.returncode == 0, installed.stderr
    kubectl = control_plane.kubectl
    for file in ("captain/rbac", "captain/dashboard", "captain/admission", "people"):
        kubectl("apply", "-f", CHART / f"{file}.yaml")
    kubectl("create", "namespace", SPACE)
    for name, role in ROLES.items():
        kubectl("-n", SPACE, "create", "serviceaccount", name)
        if role:
            words = (f"--clusterrole={role}", f"--serviceaccount={SPACE}:{name}")
            kubectl("create", "clusterrolebinding", f"{SPACE}-{name}", *words)
    yield {n: kubectl("-n", SPACE, "create", "token", n).stdout.strip() for n in ROLES}
    for name in ROLES:
        kubectl("delete", "--ignore-not-found", "clusterrolebinding", f"{SPACE}-{name}")
    kubectl("delete", "namespace", SPACE, "--wait=false")


@pytest.fixture
def release(control_plane: ControlPlane, tokens: dict[str, str]) -> Iterator[str]:
    """The path of the release, which is anew for each test."""
    apply(control_plane, *build_objects())
    yield RELEASE
    for kind in ("releases", "releasepipelines", "memberclusters"):
        control_plane.kubectl("delete", "--ignore-not-found", kind, NAME)
    words = ("delete", "configmap", "--ignore-not-found", "-n", "kubenode-system")
    control_plane.kubectl(*words, "kubenode-captain-signouts")


@pytest.fixture
def url(control_plane: ControlPlane, release: str, tmp_path: Path) -> Iterator[str]:
    """The address of the pages, when the release waits for its approval."""
    key, port = tmp_path / "key", free_port()
    key.write_bytes(b"k" * 48)
    rights = control_plane.kubeconfig_for(account("kubenode-captain"), ACCOUNT_GROUPS)
    shared = ("--kubeconfig", str(rights), "--health-port", "0", "--no-lease")
    pages = ("--dashboard-port", str(port), "--dashboard-key-file", str(key))
    program = Program("captain", ("run", "captain", *shared, *pages), tmp_path)
    program.start()

    def wait_for(phase: str) -> None:
        def is_reached() -> bool:
            return bool(control_plane.get(release).get("status", {}).get("phase") == phase)

        until_soon(is_reached, f"the release is {phase}", PATIENCE, lambda: program.log[-3000:])

    try:
        wait_for("AwaitingApproval")
        yield f"http://127.0.0.1:{port}"
        # Admission refuses to delete a release in progress, and its finalizer is Captain's.
        abort = json.dumps({"spec": {"state": "Abort"}})
        control_plane.kubectl("patch", "releases", NAME, "--type=merge", "-p", abort)
        wait_for("Aborted")
        control_plane.kubectl("delete", "releases", NAME)
    finally:
        program.stop()


@pytest.fixture
async def clients(
    control_plane: ControlPlane, tokens: dict[str, str]
) -> AsyncIterator[dict[str, Kube]]:
    """Clients with the tokens of people, as the pages make them."""
    config = str(control_plane.kubeconfig)
    made = {name: Kube(connect_as(token, kubeconfig=config)) for name, token in tokens.items()}
    yield made
    for kube in made.values():
        await kube.close()


def read_spec(cp: ControlPlane) -> dict[str, Any]:
    spec: dict[str, Any] = cp.get(RELEASE)["spec"]
    return spec


async def test_people_see_and_do_what_rbac_lets_them(
    control_plane: ControlPlane, url: str, tokens: dict[str, str]
) -> None:
    act = f"/releases/{NAME}/act"
    async with browser() as session:
        assert await log_in(session, url, "made-up") == 401
        assert await log_in(session, url, tokens["eve"]) == 303
        async with session.get(f"{url}/") as answer:
            assert answer.status == 403
    for name, action, right in (
        ("rita", "Pause", "patch releases"),
        ("max", f"Approve {NAME}", "update releases/approval"),
    ):
        async with browser() as session:
            assert await log_in(session, url, tokens[name]) == 303
            async with session.get(f"{url}/releases/{NAME}") as answer:
                assert "AwaitingApproval" in await answer.text()
            code, text = await post(session, url, act, {"action": action})
            assert code == 403 and right in text
    assert read_spec(control_plane).get("approvals", []) == []
    assert read_spec(control_plane).get("state", "Run") == "Run"
    async with browser() as session:
        assert await log_in(session, url, tokens["max"]) == 303
        for action, message, state in (
            ("Pause", "is paused", "Pause"),
            ("Resume", "goes on", "Run"),
        ):
            code, text = await post(session, url, act, {"action": action})
            assert code == 200 and text.startswith(f"Release {NAME} {message}"), text
            assert read_spec(control_plane)["state"] == state
    async with browser() as session:
        assert await log_in(session, url, tokens["ann"]) == 303
        code, text = await post(session, url, act, {"action": f"Approve {NAME}"})
        assert (code, text) == (200, f"Stage {NAME} of release {NAME} is approved.")
    [entry] = read_spec(control_plane)["approvals"]
    assert (entry["stage"], entry["by"], entry["subject"]) == (NAME, user_of("ann"), "Start")
    async with browser() as session:
        assert await log_in(session, url, tokens["max"]) == 303
        code, text = await post(session, url, act, {"action": "Abort"})
        assert code == 200 and text.startswith(f"Release {NAME} is aborted."), text
    assert read_spec(control_plane)["state"] == "Abort"


async def test_api_server_refuses_what_the_rights_of_the_pages_would_let_pass(
    release: str, clients: dict[str, Kube], control_plane: ControlPlane
) -> None:
    """The code of the buttons, with credentials that lack the right."""
    with pytest.raises(Forbidden, match="needs the right to update releases/approval"):
        await approve_stage(clients["max"], NAME, NAME, user_of("max"))
    with pytest.raises(Forbidden, match="by must be the user who approves"):
        await approve_stage(clients["ann"], NAME, NAME, user_of("max"))
    with pytest.raises(Forbidden):
        await approve_stage(clients["rita"], NAME, NAME, user_of("rita"))
    for state in (ReleaseState.PAUSE, ReleaseState.ROLLBACK, ReleaseState.ABORT):
        with pytest.raises(Forbidden):
            await change_state(clients["rita"], NAME, state)
    assert read_spec(control_plane).get("approvals", []) == []
    assert read_spec(control_plane).get("state", "Run") == "Run"


async def test_logout_is_stored_for_other_replicas_with_the_rights_of_the_chart(
    control_plane: ControlPlane, url: str, tokens: dict[str, str]
) -> None:
    async with browser() as session:
        assert await log_in(session, url, tokens["rita"]) == 303
        await post(session, url, "/logout", {})
        async with session.get(f"{url}/", allow_redirects=False) as answer:
            assert answer.status == 303

    def is_stored() -> bool:
        found = control_plane.kubectl(
            "get", "configmap", "-n", "kubenode-system", "kubenode-captain-signouts", check=False
        )
        return found.returncode == 0

    await until(is_stored, PATIENCE, "the logout is stored")
    assert len(control_plane.get(SIGN_OUTS)["data"]) == 1


@pytest.mark.parametrize(
    ("verb", "resource", "answer"),
    [
        ("create", "tokenreviews.authentication.k8s.io", "yes"),
        ("create", "subjectaccessreviews.authorization.k8s.io", "yes"),
        ("patch", "configmaps/kubenode-captain-signouts", "yes"),
        ("patch", "releases.kubenode.io --subresource=status", "yes"),
        ("delete", "releases.kubenode.io", "no"),
        ("update", "releases.kubenode.io --subresource=approval", "no"),
        ("create", "releases.kubenode.io", "no"),
        ("patch", "releasepipelines.kubenode.io", "no"),
        ("impersonate", "users", "no"),
        ("patch", "configmaps/any", "no"),
        ("create", "serviceaccounts --subresource=token", "no"),
        ("list", "secrets", "no"),
    ],
)
def test_stolen_credential_of_captain_neither_approves_nor_acts_as_a_person(
    control_plane: ControlPlane, tokens: dict[str, str], verb: str, resource: str, answer: str
) -> None:
    words = ("auth", "can-i", verb, *resource.split(), "-n", "kubenode-system")
    found = control_plane.kubectl(*words, "--as", account("kubenode-captain"), check=False)
    assert found.stdout.strip() == answer
