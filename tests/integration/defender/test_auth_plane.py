"""Who may ask Kube Defender, by tokens, certificates and RBAC of a real API server."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.control_plane import ControlPlane
from support.defender_api import an_ask
from support.guard_plane import SYSTEM, GuardPlane
from support.pki import Identity

from defender.client import ClientTls, DefenderUnreachable, HttpPermits
from kubenode.api.v1alpha1 import Ask, Reason
from kubenode.api.v1alpha1.permit import Holder

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

ONE = {"scope": "Cluster", "maxConcurrent": 1}
TICKET = Holder(kind="Ticket", name="t-1", uid="t-1")
"""Of a third party, for which no program of ours acts."""


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> Iterator[GuardPlane]:
    with GuardPlane(control_plane) as found:
        found.hook()
        found.policy(ONE)
        for name in ("kubenode-remedy", "stranger"):
            found.kubectl("create", "serviceaccount", name, "-n", SYSTEM)
        with found.defender("--client-ca-file", str(control_plane.ca_file)):
            yield found


@pytest.fixture
def authorities(plane: GuardPlane, tmp_path: Path) -> Path:
    path = tmp_path / "ca.crt"
    path.write_bytes(plane.authorities())
    return path


@asynccontextmanager
async def client(
    plane: GuardPlane, authorities: Path, token: str = "", who: Identity | None = None
) -> AsyncIterator[HttpPermits]:
    path = authorities.with_name("token")
    path.write_text(token)
    shown = (who.cert_file, who.key_file) if who is not None else (None, None)
    tls = ClientTls(authorities, *shown)
    made = HttpPermits(plane.url, path if token else None, tls=tls)
    try:
        yield made
    finally:
        await made.close()


def token_of(plane: GuardPlane, account: str, *flags: str) -> str:
    return plane.cp.kubectl("create", "token", account, "-n", SYSTEM, *flags).stdout.strip()


async def test_the_remedy_operators_token_asks_and_reads(
    plane: GuardPlane, authorities: Path
) -> None:
    token = token_of(plane, "kubenode-remedy")
    async with client(plane, authorities, token) as remedy:
        verdict = await remedy.ask(an_ask())
        assert verdict.reason is Reason.UNKNOWN, "asked, and there is no such node"
        assert (await remedy.status()).ready == "yes"
        await remedy.release("no-such-permit")


async def test_everything_that_people_read_is_there(plane: GuardPlane, authorities: Path) -> None:
    plane.nodes("seen")
    spec = {"nodeName": "seen", "containers": [{"name": "c", "image": "none"}]}
    meta = {"name": "guarded", "namespace": "default", "labels": {"app": "guarded"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "none-at-all", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "guarded"}}},
    }
    listed = {"apiVersion": "v1", "kind": "List", "items": [pod, budget]}
    plane.cp.kubectl("create", "-f", "-", stdin=json.dumps(listed))
    async with client(plane, authorities, token_of(plane, "kubenode-remedy")) as reader:
        deadline = time.monotonic() + 20
        while True:
            try:
                explained = await reader.explain("seen")
                break
            except DefenderUnreachable as error:
                assert "404" in str(error) and time.monotonic() < deadline
        assert explained.health == "Starting" and explained.policies == ["default"]
        assert len(explained.answers) == 18
        [previewed] = (await reader.preview("seen")).pods
        assert (previewed.pod, previewed.budget, previewed.blocked) == (
            "guarded",
            "none-at-all",
            True,
        )
        assert (await reader.queue()).waiting == []
        assert [each.policy for each in (await reader.breakers()).policies][-1] == "default"
        asked = await reader.requests()
        assert asked.dropped == 0
    plane.kubectl("delete", "pod", "guarded", "--force")
    plane.kubectl("delete", "pdb", "none-at-all")
    plane.cp.kubectl("delete", "node", "seen")


async def test_an_account_without_the_right_is_told_which_one(
    plane: GuardPlane, authorities: Path
) -> None:
    async with client(plane, authorities, token_of(plane, "stranger")) as stranger:
        with pytest.raises(DefenderUnreachable, match=r"403 .*may not create permits/ask"):
            await stranger.ask(an_ask())
        with pytest.raises(DefenderUnreachable, match=r"403 .*may not get permits"):
            await stranger.status()


async def test_a_right_that_is_given_or_withdrawn_counts_within_seconds(
    plane: GuardPlane, authorities: Path
) -> None:
    plane.kubectl("create", "serviceaccount", "guest", "-n", SYSTEM)
    binding = ("clusterrolebinding", "guest-asks")
    account = f"--serviceaccount={SYSTEM}:guest"
    async with client(plane, authorities, token_of(plane, "guest")) as guest:
        with pytest.raises(DefenderUnreachable, match="403"):
            await guest.ask(an_ask())
        plane.cp.kubectl("create", *binding, "--clusterrole=kubenode-permits-ask", account)
        await _until(guest, True)
        plane.cp.kubectl("delete", *binding)
        await _until(guest, False)


async def _until(guest: HttpPermits, may: bool) -> None:
    deadline = time.monotonic() + 25
    while True:
        try:
            await guest.ask(an_ask(holder=TICKET))
            answered = True
        except DefenderUnreachable:
            answered = False
        if answered is may:
            return
        assert time.monotonic() < deadline


async def test_a_permit_is_given_back_by_who_asked_for_it_alone(
    plane: GuardPlane, authorities: Path
) -> None:
    """A third party with the right to ask frees no slot of the remedy operator."""
    plane.nodes("owned")
    plane.kubectl("create", "serviceaccount", "tool", "-n", SYSTEM)
    account = f"--serviceaccount={SYSTEM}:tool"
    binding = ("clusterrolebinding", "tool-asks", "--clusterrole=kubenode-permits-ask")
    plane.cp.kubectl("create", *binding, account)
    remedys, tools = (token_of(plane, each) for each in ("kubenode-remedy", "tool"))
    ask = an_ask(node="owned")
    async with client(plane, authorities, remedys) as remedy:
        permit = await _granted(remedy, ask)
    async with client(plane, authorities, tools) as tool:
        for attempt in (tool.release(permit), tool.renew(permit), tool.ask(ask)):
            with pytest.raises(DefenderUnreachable, match="403"):
                await attempt
    stored = plane.kubectl("get", "permit", permit, "-o", "json").stdout
    user = json.loads(stored)["spec"]["holder"]["user"]
    assert user == f"system:serviceaccount:{SYSTEM}:kubenode-remedy"
    async with client(plane, authorities, remedys) as remedy:
        assert (await remedy.renew(permit)).allowed
        await remedy.release(permit)
    plane.kubectl("delete", "clusterrolebinding", "tool-asks")
    plane.cp.kubectl("delete", "node", "owned")


async def _granted(asker: HttpPermits, ask: Ask) -> str:
    deadline = time.monotonic() + 60
    while not (verdict := await asker.ask(ask)).allowed:
        assert time.monotonic() < deadline, verdict.message
        await asyncio.sleep(0.5)
    return verdict.permit


@pytest.mark.parametrize("token", ["nonsense", "eyJhbGciOiJub25lIn0.e30."])
async def test_a_made_up_token_is_nobodys(plane: GuardPlane, authorities: Path, token: str) -> None:
    async with client(plane, authorities, token) as nobody:
        with pytest.raises(DefenderUnreachable, match="401"):
            await nobody.ask(an_ask())


async def test_a_token_for_somebody_else_is_nobodys_here(
    plane: GuardPlane, authorities: Path
) -> None:
    token = token_of(plane, "kubenode-remedy", "--audience=another")
    async with client(plane, authorities, token) as remedy:
        with pytest.raises(DefenderUnreachable, match="401"):
            await remedy.ask(an_ask())


async def test_a_client_certificate_has_the_rights_of_its_user_and_groups(
    plane: GuardPlane, authorities: Path
) -> None:
    bound = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "askers"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "kubenode-permits-ask",
        },
        "subjects": [{"kind": "Group", "name": "askers", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    plane.cp.kubectl("apply", "-f", "-", stdin=json.dumps(bound))
    asker = plane.cp.issue_client_cert("rack-7", ["askers"])
    async with client(plane, authorities, who=asker) as machine:
        assert (await machine.ask(an_ask(holder=TICKET))).reason is Reason.UNKNOWN
    other = plane.cp.issue_client_cert("askers", ["rack-7"])
    async with client(plane, authorities, who=other) as machine:
        with pytest.raises(DefenderUnreachable, match="403 askers may not"):
            await machine.ask(an_ask())
    async with client(plane, authorities) as nobody:
        with pytest.raises(DefenderUnreachable, match="401"):
            await nobody.ask(an_ask())
