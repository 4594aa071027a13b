"""A permit belongs to whoever asked for it: nobody else keeps it, asks again or gives it back."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from support.asgi import Reply, request
from support.clock import FakeClock
from support.defender_api import Nothing
from support.defender_core import Core, a_node, a_policy

from defender.decision.ledger import LedgerPermit, load_permit
from defender.replicas.redis import entry
from defender.server.auth.gate import RequestAuthenticator, RequestAuthenticatorSettings
from defender.server.auth.holders import users_of
from defender.server.auth.rights import LOOPBACK
from defender.server.http.app import create_app
from defender.server.http.owners import Owners
from defender.server.store import _body
from kubenode.api.v1alpha1 import Ask, Permit, Reason, Verdict
from kubenode.api.v1alpha1.permit import Holder
from kubenode.runtime.kube.identity import Identity, Proof
from kubenode.runtime.tls.peer import Peer

NAMESPACE = "kubenode-system"
REMEDY = f"system:serviceaccount:{NAMESPACE}:kubenode-remedy"
SOME, OTHER = "system:serviceaccount:tools:some", "system:serviceaccount:tools:other"
ASKS = {"permits", "permits/ask"}


class Users(RequestAuthenticator):
    """Tokens are names of users, who have the rights in `rights`; all may ask and read."""

    def __init__(self) -> None:
        super().__init__(None, FakeClock(), RequestAuthenticatorSettings())
        self.rights: set[tuple[str, str, str]] = set()

    async def identify(self, token: str, peer: Peer | None = None) -> Identity | None:
        return Identity(token, uid=f"uid of {token}") if token else LOOPBACK

    async def may(
        self, who: Identity, verb: str, resource: str, name: str = "", group: str = "kubenode.io"
    ) -> bool:
        return resource in ASKS or (who.name, verb, resource) in self.rights


class Service:
    """The port `Permits` over a ledger."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.released: list[str] = []

    async def ask(self, ask: Ask) -> Verdict:
        return self.core.ask(ask)

    async def check(self, permit: str, seconds_needed: float) -> Verdict:
        return Verdict(allowed=False, reason=Reason.UNKNOWN)

    async def renew(self, permit: str, seconds_needed: float = 0) -> Verdict:
        return await self.check(permit, seconds_needed)

    async def release(self, permit: str) -> None:
        held = self.core.ledger.get(permit)
        assert held is not None
        self.core.ledger.release(held, self.core.now)
        self.released.append(permit)

    async def wakes(self) -> AsyncIterator[Holder]:
        for held in self.core.ledger:
            yield held.holder


class World:
    """A fleet of three of which one may be disrupted at a time."""

    def __init__(self) -> None:
        self.core = Core(a_policy(limits=[{"scope": "Cluster", "maxConcurrent": 1}]))
        self.core.nodes(*(a_node(f"n{i}") for i in range(3)))
        self.gate, self.service = Users(), Service(self.core)
        owners = Owners(self.core.ledger, users_of(NAMESPACE, ["Machine=by-hand"]))
        self.app = create_app(self.service, Nothing(), self.gate, owners=owners)

    async def post(self, user: str, path: str, body: bytes = b"") -> Reply:
        headers = {"authorization": f"Bearer {user}"} if user else {}
        return await request(self.app, "POST", path, body, headers)

    async def ask(self, caller: str, node: str = "n1", **holder: Any) -> Reply:
        given = {"kind": "Ticket", "name": "t-1", "uid": "t-1"} | holder
        body = Ask.model_validate(
            {"operation": "Repair", "class": "Node", "node": node, "holder": given}
        )
        return await self.post(caller, "/v1/permits", body.model_dump_json(by_alias=True).encode())

    async def granted(self, caller: str, **holder: Any) -> str:
        reply = await self.ask(caller, **holder)
        assert reply.status == 200 and reply.json()["allowed"], reply.body
        return str(reply.json()["permit"])


async def test_another_client_neither_renews_nor_releases() -> None:
    world = World()
    permit = await world.granted(SOME)
    for act in ("release", "renew"):
        reply = await world.post(OTHER, f"/v1/permits/{permit}/{act}")
        assert reply.status == 403 and SOME in reply.json()["message"]
        assert "permits/release-any" in reply.json()["message"], "says which right is lacking"
    assert world.service.released == []
    again = await world.ask(OTHER, "n2", name="t-2", uid="t-2")
    assert not again.json()["allowed"], "the slot is taken"
    assert (await world.post(SOME, f"/v1/permits/{permit}/renew")).status == 200
    assert (await world.post(SOME, f"/v1/permits/{permit}/release")).status == 200
    assert world.service.released == [permit]


async def test_another_client_does_not_ask_again_in_the_holders_name() -> None:
    world = World()
    permit = await world.granted(SOME)
    assert (await world.ask(OTHER)).status == 403
    assert await world.granted(SOME) == permit, "the holder may"


async def test_a_right_of_its_own_lets_somebody_give_back_what_others_hold() -> None:
    world = World()
    permit = await world.granted(SOME)
    world.gate.rights.add((OTHER, "update", "permits/release-any"))
    assert (await world.post(OTHER, f"/v1/permits/{permit}/release")).status == 200
    assert world.service.released == [permit]


@pytest.mark.parametrize("kind", ["RemedyOperationJob", "Machine", "MachineComponentSet"])
async def test_a_programs_holders_are_named_by_that_program_alone(kind: str) -> None:
    world = World()
    reply = await world.ask(SOME, kind=kind)
    assert reply.status == 403 and "permits/ask-any" in reply.json()["message"]
    assert (await world.ask(REMEDY, kind=kind)).status == (
        200 if kind == "RemedyOperationJob" else 403
    )
    assert (await world.ask("by-hand", kind=kind, uid="x")).status == (
        200 if kind == "Machine" else 403
    )
    world.gate.rights.add((SOME, "create", "permits/ask-any"))
    assert (await world.ask(SOME, kind=kind, uid="y")).status == 200


async def test_the_caller_is_the_authenticated_one_whatever_the_ask_says() -> None:
    world = World()
    permit = await world.granted(SOME, user=OTHER, userUid="x")
    held = world.core.ledger.get(permit)
    assert held is not None
    assert (held.holder.user, held.holder.user_uid) == (SOME, f"uid of {SOME}")


async def test_without_authentication_nothing_changes() -> None:
    """On loopback, and for the bearer of the token file, who are nobody at the API server."""
    world = World()
    permit = await world.granted("", kind="RemedyOperationJob", user=OTHER)
    held = world.core.ledger.get(permit)
    assert held is not None and held.holder.user is None
    assert (await world.post("", f"/v1/permits/{permit}/release")).status == 200
    assert not Identity("token-file", proof=Proof.TOKEN_FILE).of_the_api_server


async def test_a_permit_of_an_earlier_version_is_kept_and_given_back_as_before() -> None:
    world = World()
    asked = {
        "operation": "Repair",
        "class": "Node",
        "node": "n1",
        "holder": {"kind": "Ticket", "name": "t-1", "uid": "t-1"},
    }
    permit = world.core.ask(Ask.model_validate(asked)).permit
    assert await world.granted(SOME) == permit
    assert (await world.post(OTHER, f"/v1/permits/{permit}/release")).status == 200


@pytest.mark.parametrize("kind", ["RemedyOperationJob", "User"])
async def test_what_was_asked_for_in_our_own_process_is_no_other_clients(kind: str) -> None:
    """As `run all` does, and the admission webhook for whoever drains a node."""
    world = World()
    asked = {
        "operation": "Repair",
        "class": "Node",
        "node": "n1",
        "holder": {"kind": kind, "name": "j-1", "uid": "j-1"},
    }
    permit = world.core.ask(Ask.model_validate(asked)).permit
    assert (await world.post(SOME, f"/v1/permits/{permit}/release")).status == 403
    by_remedy = (await world.post(REMEDY, f"/v1/permits/{permit}/release")).status
    assert by_remedy == (200 if kind == "RemedyOperationJob" else 403)


async def test_the_caller_outlives_a_restart_and_reaches_other_replicas() -> None:
    world = World()
    permit = await world.granted(SOME)
    held = world.core.ledger.get(permit)
    assert held is not None
    stored = _body(held) | {"status": {}}
    stored["metadata"] = {"name": permit, "uid": "u", "resourceVersion": "1"}
    read = load_permit(Permit.model_validate(stored), 900)
    assert read.holder.user == SOME
    assert entry.read(permit, 1, entry.written(held)).holder.user == SOME
    assert held_of_an_older_entry(held).holder.user is None


def held_of_an_older_entry(held: LedgerPermit) -> LedgerPermit:
    text = entry.written(held).replace(f',"user":"{held.holder.user}"', "")
    text = text.replace(f',"user_uid":"{held.holder.user_uid}"', "")
    assert "user" not in text
    return entry.read(held.name, 1, text)
