"""The dashboard against a real API server: people come in with real tokens, RBAC says what they
may, and what they write is written as them.
"""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from support.control_plane import ControlPlane
from support.dashboard_running import Running, dashboard_over
from support.dashboard_world import JOBS, POLICIES, ROLLOUTS, a_job, a_rollout, put, stamp
from support.remedy_cluster import install_crds
from support.running import until
from support.site_session import browser, log_in, post

from defender.server.auth.gate import RequestAuthenticator, RequestAuthenticatorSettings
from defender.server.node_events import read_node_events
from kubenode.api.v1alpha1 import default_policy
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists, Forbidden, Unauthorized
from kubenode.runtime.kube.identity import Identity
from kubenode.runtime.kube.official import connect, connect_as
from kubenode.runtime.site.people import Person, Proxy, Via, Writers, networks

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

SPACE = "dashboard-people"
WHO_AM_I = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
RIGHTS = {
    "looker": [("get", "defenderpolicies")],
    "pauser": [("get", "defenderpolicies"), ("list", "defenderpolicies"),
               ("patch", "defenderpolicies")],
    "decider": [("get", "defenderpolicies"), ("get", "remedyoperationjobs"),
                ("patch", "remedyoperationjobs")],
    "roller": [("get", "defenderpolicies"), ("get", "machinecomponentsets"),
               ("patch", "machinecomponentsets")],
    "stranger": [],
}  # fmt: skip


@pytest.fixture(scope="module")
def tokens(control_plane: ControlPlane) -> dict[str, str]:
    """Service accounts with the rights of RIGHTS, and a token of each."""
    install_crds(control_plane)
    kubectl = control_plane.kubectl
    kubectl("create", "namespace", SPACE, check=False)
    found = {}
    for name, rights in RIGHTS.items():
        kubectl("-n", SPACE, "create", "serviceaccount", name)
        for verb, resource in rights:
            role = f"{SPACE}-{name}-{verb}-{resource}"
            kubectl("create", "clusterrole", role, f"--verb={verb}",
                    f"--resource={resource}.kubenode.io")  # fmt: skip
            account = f"--serviceaccount={SPACE}:{name}"
            kubectl("create", "clusterrolebinding", role, f"--clusterrole={role}", account)
        found[name] = kubectl("-n", SPACE, "create", "token", name).stdout.strip()
    return found


def user_of(account: str) -> str:
    return f"system:serviceaccount:{SPACE}:{account}"


@pytest.fixture
async def kube(control_plane: ControlPlane) -> AsyncIterator[Kube]:
    made = Kube(connect(str(control_plane.kubeconfig)), rate=1000, burst=1000)
    yield made
    await made.close()


@pytest.fixture
def writers(control_plane: ControlPlane, kube: Kube) -> Writers:
    return Writers(kube, partial(connect_as, kubeconfig=str(control_plane.kubeconfig)))


@pytest.fixture
async def world(kube: Kube, writers: Writers, tokens: dict[str, str]) -> AsyncIterator[Running]:
    policy = default_policy().to_dict()
    try:
        await kube.create(POLICIES, policy)
    except AlreadyExists:
        await kube.patch(f"{POLICIES}/default", {"spec": {"pauses": []}})
    await put(kube, JOBS, a_job("n1", "AwaitingApproval", name="decide-me"))
    gate = RequestAuthenticator(
        kube, SystemClock(), RequestAuthenticatorSettings(review_tokens=True)
    )
    proxy = Proxy("X-User", "X-Groups", within=networks(("127.0.0.1",)), prefix="oidc:")
    async with dashboard_over(None, kube, gate, writers, link="", proxy=proxy) as running:
        yield running
    await kube.delete(f"{JOBS}/decide-me")


async def who(kube: Kube) -> dict[str, Any]:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    made = await kube.create(WHO_AM_I, review)
    return dict(made["status"]["userInfo"])


PAUSE = {"scope": "node=n1", "for": "1h", "why": "by hand", "empty": "yes"}


async def test_a_write_goes_out_as_the_person_and_not_as_kube_defender(
    writers: Writers, tokens: dict[str, str]
) -> None:
    looker = Person(Identity(user_of("looker")), Via.TOKEN, tokens["looker"])
    async with writers.of(looker) as theirs:
        assert (await who(theirs))["username"] == user_of("looker")
        with pytest.raises(Forbidden):
            await theirs.patch(f"{POLICIES}/default", {"spec": {"pauses": []}})


async def test_one_whom_a_proxy_has_logged_in_is_impersonated_with_all_groups(
    writers: Writers,
) -> None:
    identity = Identity("oidc:eve", ("oidc:dev", "oidc:ops", "system:authenticated"))
    async with writers.of(Person(identity, Via.PROXY)) as theirs:
        user = await who(theirs)
        assert user["username"] == "oidc:eve"
        assert {"oidc:dev", "oidc:ops"} <= set(user["groups"])
        assert "system:masters" not in user["groups"]
        with pytest.raises(Forbidden):
            await theirs.patch(f"{POLICIES}/default", {"spec": {"pauses": []}})


async def test_a_token_that_is_nobodys_writes_nothing(writers: Writers) -> None:
    async with writers.of(Person(Identity("x"), Via.TOKEN, "no-token")) as theirs:
        with pytest.raises(Unauthorized):
            await theirs.get(paths.nodes())


async def test_people_come_in_by_their_tokens_and_do_what_rbac_lets_them(
    world: Running, kube: Kube, tokens: dict[str, str]
) -> None:
    async with browser() as nobody:
        assert await log_in(nobody, world.url, "made-up") == 401
    async with browser() as looker:
        assert await log_in(looker, world.url, tokens["looker"]) == 303
        code, said = await post(looker, world.url, "/pauses", PAUSE)
        assert code == 403 and "patch defenderpolicies" in said
    async with browser() as stranger:
        assert await log_in(stranger, world.url, tokens["stranger"]) == 303
        async with stranger.get(world.url) as answer:
            assert answer.status == 403
    async with browser() as pauser:
        assert await log_in(pauser, world.url, tokens["pauser"]) == 303
        code, said = await post(pauser, world.url, "/pauses", PAUSE)
        assert (code, said) == (200, "node=n1 is paused now: nothing new is disrupted there until"
                                     " it is resumed.")  # fmt: skip
        (pause,) = (await kube.get(f"{POLICIES}/default"))["spec"]["pauses"]
        assert (pause["by"], pause["why"]) == (user_of("pauser"), "by hand")
        decide = {"decision": "Approve", "seen": "0"}
        code, _ = await post(pauser, world.url, "/jobs/decide-me/decide", decide)
        assert code == 403
    async with browser() as decider:
        assert await log_in(decider, world.url, tokens["decider"]) == 303
        code, said = await post(decider, world.url, "/jobs/decide-me/decide", decide)
        assert code == 200 and said.startswith("Approved decide-me"), said
        (made,) = (await kube.get(f"{JOBS}/decide-me"))["spec"]["approvals"]
        assert (made["decision"], made["by"]) == ("Approve", user_of("decider"))


async def test_a_rollout_is_paused_by_those_whom_rbac_lets_patch_its_set(
    kube: Kube, world: Running, tokens: dict[str, str]
) -> None:
    await put(kube, ROLLOUTS, a_rollout("runc", "runc-1.3", "Updating"))
    path, press = "/rollouts/runc/act", {"action": "Pause"}
    try:
        board = world.dashboard.board
        await until(lambda: "runc" in board.scene().rollouts, 20, "the set is read")
        for name in ("looker", "pauser", "decider"):
            async with browser() as session:
                assert await log_in(session, world.url, tokens[name]) == 303
                code, text = await post(session, world.url, path, press)
                assert code == 403 and "patch machinecomponentsets" in text, name
        assert not (await kube.get(f"{ROLLOUTS}/runc"))["spec"].get("paused")
        async with browser() as session:
            assert await log_in(session, world.url, tokens["roller"]) == 303
            code, text = await post(session, world.url, path, press)
            assert code == 200 and "Paused runc" in text
        written = await kube.get(f"{ROLLOUTS}/runc")
        assert written["spec"]["paused"] is True
    finally:
        await kube.delete(f"{ROLLOUTS}/runc")


async def test_events_of_one_node_are_read_and_those_of_others_are_not(kube: Kube) -> None:
    events = paths.events("default")
    for node in ("events-1", "events-2"):
        body = {
            "metadata": {"name": f"{node}.1", "namespace": "default"},
            "involvedObject": {"kind": "Node", "name": node, "apiVersion": "v1"},
            "type": "Warning", "reason": "SystemOOM", "message": node, "count": 2,
            "lastTimestamp": stamp(30), "source": {"component": "kubelet"},
        }  # fmt: skip
        await kube.create(events, body)
    (row,) = (await read_node_events(kube, "events-1")).rows
    assert (row.message, row.count, row.source) == ("events-1", 2, "kubelet")
    assert (await read_node_events(kube, "events-3")).rows == ()


async def test_two_who_decide_at_once_write_one_after_the_other_and_one_is_told(
    world: Running, kube: Kube, tokens: dict[str, str]
) -> None:
    async with browser() as one, browser() as other:
        for session in (one, other):
            assert await log_in(session, world.url, tokens["decider"]) == 303
        path = "/jobs/decide-me/decide"
        first = await post(one, world.url, path, {"decision": "Deny", "seen": "0"})
        second = await post(other, world.url, path, {"decision": "Approve", "seen": "0"})
        assert first[1].startswith("Denied")
        assert second[1].startswith("Somebody was faster")
        assert len((await kube.get(f"{JOBS}/decide-me"))["spec"]["approvals"]) == 1


async def test_whoever_a_trusted_proxy_names_has_their_own_rights(
    world: Running, control_plane: ControlPlane
) -> None:
    async with browser() as nobody, nobody.get(world.url, headers={"X-User": "eve"}) as answer:
        assert answer.status == 403
    role = f"{SPACE}-pauser-patch-defenderpolicies"
    reads = f"{SPACE}-pauser-get-defenderpolicies"
    lists = f"{SPACE}-pauser-list-defenderpolicies"
    for name in (role, reads, lists):
        control_plane.kubectl(
            "create", "clusterrolebinding", f"ops-{name}", f"--clusterrole={name}",
            "--group=oidc:pausers",
        )  # fmt: skip
    said = {"X-User": "ada", "X-Groups": "pausers"}
    async with browser() as ada:
        code, text = await post(ada, world.url, "/pauses", PAUSE, **said)
        assert code == 200 and "node=n1 is paused" in text, text
        (pause,) = (await world.kube.get(f"{POLICIES}/default"))["spec"]["pauses"]
        assert pause["by"] == "oidc:ada"


async def test_logged_out_there_is_only_the_login_page(world: Running) -> None:
    async with browser() as session:
        for path in ("/", "/jobs", "/pauses", "/nodes/n1", "/find?q=n1"):
            async with session.get(world.url + path, allow_redirects=False) as answer:
                assert answer.status == 303
                assert answer.headers["Location"].startswith("/login")
        async with session.get(f"{world.url}/live/") as answer:
            assert answer.status == 401
        for path in ("/pauses", "/pauses/resume", "/jobs/decide-me/decide", "/logout"):
            async with session.post(world.url + path, data={"scope": "cluster"}) as answer:
                assert answer.status == 401
