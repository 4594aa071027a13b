"""The credential of a member that Captain holds: what it reaches on a real API server."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from support.member_world import MemberWorld

from captain.members.client import RemoteMember
from captain.members.cluster import MemberUnreachable
from captain.members.kubeconfig import parse_kubeconfig
from captain.members.transport import MemberTransport
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Conflict, Forbidden, Invalid

pytestmark = [pytest.mark.integration, pytest.mark.timeout(200)]
SYSTEM = "/api/v1/namespaces/kubenode-system"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
KUBENODE = "/apis/kubenode.io/v1alpha1"
REFUSED = [
    ("GET", "/api/v1/secrets"),
    ("GET", f"{SYSTEM}/secrets"),
    ("GET", f"{SYSTEM}/secrets/any"),
    ("GET", f"{SYSTEM}/configmaps"),
    ("GET", "/api/v1/nodes"),
    ("PATCH", "/api/v1/nodes/any"),
    ("DELETE", "/api/v1/nodes/any"),
    ("GET", "/api/v1/nodes/any/proxy/pods"),
    ("GET", "/api/v1/pods"),
    ("POST", f"{SYSTEM}/pods"),
    ("POST", f"{SYSTEM}/pods/any/exec"),
    ("POST", f"{SYSTEM}/pods/any/eviction"),
    ("POST", f"{SYSTEM}/serviceaccounts"),
    ("POST", f"{SYSTEM}/serviceaccounts/kubenode-captain-member/token"),
    ("POST", f"{SYSTEM}/serviceaccounts/default/token"),
    ("PATCH", f"{RBAC}/clusterroles/kubenode-captain-member"),
    ("POST", f"{RBAC}/clusterrolebindings"),
    ("PATCH", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/machines.kubenode.io"),
    ("POST", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"),
    ("DELETE", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/any"),
    ("POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests"),
    ("POST", f"{KUBENODE}/machines"),
    ("GET", f"{KUBENODE}/machines/any"),
    ("PATCH", f"{KUBENODE}/machines/any"),
    ("POST", f"{KUBENODE}/permits"),
    ("POST", f"{KUBENODE}/remedyoperationjobs"),
    ("GET", f"{KUBENODE}/remedyoperationjobs"),
    ("POST", f"{KUBENODE}/hostprobes"),
    ("POST", f"{KUBENODE}/memberclusters"),
    ("DELETE", f"{KUBENODE}/noderemediers"),
    ("PATCH", f"{KUBENODE}/noderemediers/any/status"),
    ("PATCH", f"{KUBENODE}/defenderpolicies/any/status"),
]
"""The delete of a collection is a right of its own, deletecollection."""
POLICY: dict[str, Any] = {
    "apiVersion": "kubenode.io/v1alpha1",
    "kind": "DefenderPolicy",
    "metadata": {"name": "released", "labels": {"release": "a"}},
    "spec": {"nodes": {"all": True}, "acknowledgeUnlimited": True},
}


@pytest.fixture
async def stolen(world: MemberWorld) -> AsyncIterator[Kube]:
    world.import_member("east")
    kube = Kube(MemberTransport(parse_kubeconfig(world.kubeconfig("east"))), attempts=1)
    yield kube
    await kube.close()


async def test_a_stolen_credential_reaches_nothing_but_what_is_released(stolen: Kube) -> None:
    reached = []
    for method, path in REFUSED:
        body: dict[str, str] | None = None if method == "GET" else {}
        try:
            answer = await stolen.call(method, path, body=body)
        except Forbidden:
            continue
        reached.append((method, path, answer))
    assert reached == []


async def test_a_stolen_credential_impersonates_nobody(world: MemberWorld, stolen: Kube) -> None:
    transport = stolen.transport
    assert isinstance(transport, MemberTransport)
    connection = await transport.connect()
    try:
        headers = {"Impersonate-User": "admin", "Impersonate-Group": "system:masters"}
        url = f"{world.member.server}/api/v1/secrets"
        given = {**await connection._headers(), **headers}
        async with connection.session.get(url, headers=given) as response:
            assert response.status == 403
    finally:
        await connection.close()


async def test_the_port_applies_replaces_and_deletes_on_a_real_server(
    world: MemberWorld, stolen: Kube
) -> None:
    member = RemoteMember("east", {}, lambda: stolen)
    kind, name = "DefenderPolicy", "released"
    assert await member.read(kind, name) is None
    applied = await member.apply(POLICY, manager="kubenode-captain", force=False)
    stored = await member.read(kind, name)
    assert stored is not None and stored["spec"] == applied["spec"]
    listed = await member.list_all(kind)
    assert [each["metadata"]["name"] for each in listed] == [name]
    excluded = {"exclude": {"matchLabels": {"pool": "b"}}}
    changed = stored | {"spec": stored["spec"] | excluded}
    labelled = changed | {"metadata": {"name": name, "labels": {"release": "b", "other": "c"}}}
    with pytest.raises(Conflict):
        await member.apply(labelled, manager="another", force=False)
    await member.apply(labelled, manager="another", force=True)
    restored = await member.replace(stored, manager="kubenode-captain")
    assert restored["spec"] == stored["spec"]
    assert restored["metadata"]["labels"] == {"release": "a"}
    assert restored["metadata"]["uid"] == stored["metadata"]["uid"]
    with pytest.raises(Invalid):
        await member.apply(POLICY | {"spec": {"nodes": 3}}, manager="m", force=True)
    for version in ("1", restored["metadata"]["resourceVersion"]):
        versioned = POLICY | {"metadata": POLICY["metadata"] | {"resourceVersion": version}}
        if version == "1":
            with pytest.raises(Conflict):
                await member.apply(versioned, manager="kubenode-captain", force=True)
        else:
            await member.apply(versioned, manager="kubenode-captain", force=True)
    newer = POLICY["spec"] | {"fieldOfALaterVersion": True}
    with pytest.raises(Invalid):
        await member.apply(POLICY | {"spec": newer}, manager="m", force=True)
    await member.delete(kind, name)
    await member.delete(kind, name)
    again = await member.replace(stored, manager="kubenode-captain")
    assert again["spec"] == stored["spec"]
    await member.delete(kind, name)
    with pytest.raises(ValueError, match="Secret"):
        await member.read("Secret", "any")
    world.member.kubectl("delete", "clusterrolebinding/kubenode-captain-member")
    while True:
        try:
            await member.read(kind, name)
        except MemberUnreachable as error:
            assert error.reason == "Forbidden"
            break
