"""Who may call Kube Defender: what is proven, what is remembered, and that doubt lets nobody in."""

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.clock import FakeClock

from defender.server.auth.gate import RequestAuthenticator, RequestAuthenticatorSettings, open_gate
from defender.server.auth.rights import ASKS, LOOPBACK, TOKEN_FILE
from kubenode.runtime.kube.access_reviews import ACCESS
from kubenode.runtime.kube.client import Kube, as_dict
from kubenode.runtime.kube.errors import Forbidden, ServerUnreachable
from kubenode.runtime.kube.identity import AUTHENTICATED, Identity, Proof
from kubenode.runtime.kube.reviews import BURST, LONGEST_TOKEN, TOKENS, Unverified
from kubenode.runtime.tls.peer import Peer

NOWHERE: Any = None
REMEDY = "system:serviceaccount:kubenode-system:kubenode-remedy"


class Reviewer(Kube):
    """Answers TokenReviews by `users`, SubjectAccessReviews by `allowed`."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(NOWHERE, clock=clock)
        self.users: dict[str, dict[str, Any]] = {"good": {"username": REMEDY, "groups": ["sa"]}}
        self.audiences: list[str] | None = None
        self.allowed: Callable[[dict[str, Any]], bool] = lambda spec: True
        self.fails: Exception | None = None
        self.heard: list[tuple[str, dict[str, Any]]] = []

    async def create(
        self, path: str, body: Any, decode: Callable[[bytes], Any] = as_dict, query: Any = None
    ) -> Any:
        self.heard.append((path, body["spec"]))
        await asyncio.sleep(0)
        if self.fails is not None:
            raise self.fails
        return decode(json.dumps({"status": self._status(path, body["spec"])}).encode())

    def _status(self, path: str, spec: dict[str, Any]) -> dict[str, Any]:
        if path == ACCESS:
            return {"allowed": self.allowed(spec)}
        user = self.users.get(spec["token"])
        if user is None:
            return {"error": "no such token"}
        return {"authenticated": True, "user": user, "audiences": self.audiences}

    def count(self, path: str) -> int:
        return sum(heard == path for heard, _ in self.heard)


def a_gate(**settings: Any) -> tuple[RequestAuthenticator, Reviewer, FakeClock]:
    clock = FakeClock()
    kube = Reviewer(clock)
    given = {"review_tokens": True, **settings}
    return RequestAuthenticator(kube, clock, RequestAuthenticatorSettings(**given)), kube, clock


async def test_a_service_accounts_token_is_its_user() -> None:
    gate, kube, _ = a_gate()
    kube.users["good"] = {
        "username": REMEDY,
        "uid": "u1",
        "groups": ["system:serviceaccounts"],
        "extra": {"authentication.kubernetes.io/pod-name": ["remedy-0"]},
    }
    who = await gate.identify("good")
    assert who is not None
    assert (who.name, who.uid, who.groups) == (REMEDY, "u1", ("system:serviceaccounts",))
    assert await gate.may(who, "create", "permits")
    asked = kube.heard[-1][1]
    assert asked["user"] == REMEDY and asked["groups"] == ["system:serviceaccounts"]
    assert asked["extra"] == {"authentication.kubernetes.io/pod-name": ["remedy-0"]}
    assert asked["resourceAttributes"] == {
        "verb": "create",
        "group": "kubenode.io",
        "resource": "permits",
    }


async def test_a_subresource_and_a_name_are_asked_about_as_such() -> None:
    gate, kube, _ = a_gate()
    await gate.may(Identity("ann"), "patch", "remedyoperationjobs/status", "j1")
    assert kube.heard[-1][1]["resourceAttributes"] == {
        "verb": "patch",
        "group": "kubenode.io",
        "resource": "remedyoperationjobs",
        "subresource": "status",
        "name": "j1",
    }


@pytest.mark.parametrize("token", ["bad", "x" * (LONGEST_TOKEN + 1)])
async def test_an_unknown_token_is_nobody(token: str) -> None:
    gate, _, _ = a_gate(anyone=True)
    assert await gate.identify(token) is None, "what is shown must be right, also on loopback"


async def test_a_token_for_another_audience_is_nobody() -> None:
    gate, kube, _ = a_gate(audience="kube-defender")
    assert await gate.identify("good") is None, "a server that knows no audiences says none"
    for audiences, known in ((["https://kubernetes"], False), (["kube-defender"], True)):
        gate, kube, _ = a_gate(audience="kube-defender")
        kube.audiences = audiences
        assert (await gate.identify("good") is not None) is known
        assert kube.heard[-1][1]["audiences"] == ["kube-defender"]


async def test_answers_are_remembered_for_ten_seconds() -> None:
    gate, kube, clock = a_gate()
    for _ in range(3):
        assert await gate.identify("good")
        assert await gate.may(Identity("ann"), "create", "permits")
    assert (kube.count(TOKENS), kube.count(ACCESS)) == (1, 1)
    kube.allowed = lambda spec: False
    clock.step(timedelta(seconds=9))
    assert await gate.may(Identity("ann"), "create", "permits")
    clock.step(timedelta(seconds=1))
    assert not await gate.may(Identity("ann"), "create", "permits")


async def test_one_right_says_nothing_of_another_or_of_another_user() -> None:
    gate, kube, _ = a_gate()
    kube.allowed = lambda spec: (spec["user"], spec["resourceAttributes"]["verb"]) == ("ann", "get")
    ann, bob = Identity("ann"), Identity("bob")
    assert await gate.may(ann, "get", "permits")
    assert not await gate.may(ann, "create", "permits")
    assert not await gate.may(bob, "get", "permits")
    assert not await gate.may(Identity("bob", groups=("ann",)), "get", "permits")


async def test_who_asks_the_same_at_once_shares_one_review() -> None:
    gate, kube, _ = a_gate()
    found = await asyncio.gather(*(gate.identify("good") for _ in range(20)))
    assert all(who is not None and who.name == REMEDY for who in found)
    assert kube.count(TOKENS) == 1


async def test_who_gives_up_waiting_leaves_the_answer_to_the_others() -> None:
    gate, _, _ = a_gate()
    first = asyncio.ensure_future(gate.identify("good"))
    second = asyncio.ensure_future(gate.identify("good"))
    await asyncio.sleep(0)
    first.cancel()
    assert await second is not None


@pytest.mark.parametrize("error", [ServerUnreachable("away"), Forbidden(403, "Forbidden")])
async def test_an_api_server_that_does_not_say_lets_nobody_in_and_is_asked_again(
    error: Exception,
) -> None:
    gate, kube, _ = a_gate()
    kube.fails = error
    with pytest.raises(Unverified):
        await gate.identify("good")
    with pytest.raises(Unverified):
        await gate.may(Identity("ann"), "get", "permits")
    kube.fails = None
    assert await gate.identify("good") is not None
    assert await gate.may(Identity("ann"), "get", "permits")


async def test_made_up_tokens_cost_a_bounded_number_of_reviews() -> None:
    gate, _, clock = a_gate()
    for n in range(int(BURST)):
        assert await gate.identify(f"bad{n}") is None
    with pytest.raises(Unverified, match="too many"):
        await gate.identify("one more")
    clock.step(timedelta(seconds=1))
    assert await gate.identify("one more") is None


async def test_a_certificate_is_a_user_with_its_organizations_as_groups() -> None:
    gate, kube, clock = a_gate()
    peer = Peer("machine", ("kubenode:machines",), clock.now() + timedelta(hours=1))
    who = await gate.identify("", peer)
    assert who == Identity("machine", ("kubenode:machines", AUTHENTICATED), Proof.CERTIFICATE)
    assert await gate.may(who, "create", "permits")
    assert kube.heard[-1][1]["user"] == "machine"
    clock.step(timedelta(hours=1))
    assert await gate.identify("", peer) is None, "the connection outlived the certificate"


async def test_a_shown_token_counts_before_a_certificate() -> None:
    gate, _, clock = a_gate()
    peer = Peer("machine", (), clock.now() + timedelta(hours=1))
    assert await gate.identify("bad", peer) is None
    who = await gate.identify("good", peer)
    assert who is not None and who.name == REMEDY


async def test_the_bearer_of_the_file_asks_and_reads_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("s3cret\n")
    gate, kube, _ = a_gate(token_file=path)
    who = await gate.identify("s3cret")
    assert who == TOKEN_FILE
    assert await gate.may(who, "create", ASKS) and await gate.may(who, "update", ASKS)
    assert not await gate.may(who, "create", "permits"), "asking is not writing"
    assert await gate.may(who, "get", "defenderpolicies")
    assert not await gate.may(who, "patch", "defenderpolicies")
    assert not await gate.may(who, "get", "secrets", group="")
    assert not await gate.may(who, "delete", "permits")
    assert kube.heard == [], "the API server knows no such user"
    path.write_text("rotated")
    assert await gate.identify("s3cret") is None
    assert await gate.identify("good") is not None, "reviewed where it is not the file's"


async def test_an_empty_or_missing_file_lets_nobody_in(tmp_path: Path) -> None:
    path = tmp_path / "token"
    gate, _, _ = a_gate(token_file=path, review_tokens=False)
    with pytest.raises(Unverified, match="token file"):
        await gate.identify("x")
    path.write_text("\n")
    assert await gate.identify("") is None
    assert await gate.identify(" ") is None


async def test_without_anything_shown_only_an_open_gate_lets_in() -> None:
    gate, _, clock = a_gate()
    assert await gate.identify("") is None
    opened = open_gate(clock)
    who = await opened.identify("")
    assert who == LOOPBACK
    assert await opened.may(who, "create", ASKS)
    assert not await opened.may(who, "patch", "defenderpolicies")
    assert not await opened.may(Identity("ann"), "get", "permits"), "nobody says what ann may"


def test_an_identity_of_a_review_is_never_taken_for_a_local_one() -> None:
    assert Identity("token-file") != TOKEN_FILE
    assert Identity("loopback").of_the_api_server
