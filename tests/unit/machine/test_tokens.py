"""A bootstrap token is made late, renewed until its host has joined, and revoked after."""

from datetime import datetime, timedelta
from itertools import product

import pytest
from support.clock import T0

from kubenode.api.v1alpha1 import Machine
from machine.bootstrap.controller import need_of
from machine.bootstrap.step import BootstrapAct, BootstrapObservation, Need, TokenLifetimes, step
from machine.bootstrap.tokens import secret
from machine.certificates.case import BootstrapToken

LIVES = TokenLifetimes()
DAY = timedelta(days=1)


def a_machine(**more: object) -> Machine:
    raw = {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "Machine",
        "metadata": {"name": "m", "uid": "u"},
        "spec": {"addresses": ["10.0.0.1"]},
        **more,
    }
    return Machine.model_validate(raw)


class World:
    """A token's Secret and the status that names it, acted on as told."""

    def __init__(self) -> None:
        self.now, self.token_id = T0, ""
        self.secrets: dict[str, datetime] = {}
        self.made = 0

    def seen(self, need: Need) -> BootstrapObservation:
        expires = self.secrets.get(self.token_id)
        token = None if expires is None else BootstrapToken(self.token_id, "m", "u", expires)
        return BootstrapObservation(need, self.token_id, token, token is not None, self.now)

    def act(self, act: BootstrapAct) -> None:
        match act:
            case BootstrapAct.NAME:
                self.made += 1
                self.token_id = f"id{self.made}"
            case BootstrapAct.FORGET:
                self.token_id = ""
            case BootstrapAct.MAKE | BootstrapAct.RENEW:
                self.secrets[self.token_id] = self.now + LIVES.life
            case BootstrapAct.SHORTEN:
                self.secrets[self.token_id] = self.now + LIVES.fetch
            case BootstrapAct.REVOKE:
                del self.secrets[self.token_id]
            case BootstrapAct.NONE:
                pass

    def run(self, need: Need, until: datetime) -> None:
        """As the controller does: it looks again when it was told to."""
        while True:
            act, again = step(self.seen(need), LIVES)
            self.act(act)
            if again is None or again > until:
                break
            self.now = max(self.now, again)
        self.now = max(self.now, until)


def test_f27_a_host_that_joins_a_day_later_finds_its_token_live() -> None:
    world = World()
    world.run(Need.WANTED, T0)
    token = world.token_id
    for hours in range(1, 25):
        world.run(Need.WANTED, T0 + timedelta(hours=hours))
        assert world.secrets[token] > world.now
    assert world.made == 1, "the token that the host was given is the one that lives"


def test_f27_a_token_is_made_late_and_not_before_its_machine_is_there() -> None:
    spec = {"origin": "Provision", "classRef": "ecs-a"}
    assert need_of(a_machine(spec=spec), joined=False) is Need.NONE
    there = a_machine(spec={**spec, "providerID": "aws:///i-1"})
    assert need_of(there, joined=False) is Need.WANTED
    asked = a_machine(spec=spec, status={"provisioning": {"clientToken": "u-1"}})
    assert need_of(asked, joined=False) is Need.WANTED, "the new instance is given it"
    assert need_of(a_machine(), joined=False) is Need.WANTED


def test_a_machine_that_has_failed_lets_nobody_in_any_more() -> None:
    late = {"type": "Healthy", "status": "False", "reason": "StartupTimeout"}
    failed = {"conditions": [{**late, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    assert need_of(a_machine(status=failed), joined=False) is Need.NONE


def test_a_token_is_revoked_once_its_agent_has_joined() -> None:
    world = World()
    world.run(Need.WANTED, T0)
    world.run(Need.NONE, T0 + timedelta(seconds=1))
    assert not world.secrets and not world.token_id


def test_a_token_that_was_granted_a_certificate_fetches_it_and_dies_soon() -> None:
    world = World()
    world.run(Need.WANTED, T0)
    world.run(Need.FETCH, T0)
    assert world.secrets[world.token_id] <= T0 + LIVES.fetch
    world.run(Need.FETCH, T0 + LIVES.fetch * 2)
    assert not world.secrets and not world.token_id


@pytest.mark.parametrize("need", Need)
def test_dying_at_any_act_leaves_no_token_behind_and_ends_the_same(need: Need) -> None:
    for die_at, applied in product(range(6), (False, True)):
        world = World()
        world.run(Need.WANTED, T0)
        if need is Need.WANTED:
            world.secrets.clear()
        for number in range(8):
            act, _ = step(world.seen(need), LIVES)
            if number != die_at or applied:
                world.act(act)
        named = {world.token_id} if world.token_id else set()
        assert set(world.secrets) <= named, "a token that nobody knows"
        if need is Need.NONE:
            assert not world.secrets
        if need is Need.WANTED:
            assert world.secrets


def test_a_secret_of_another_machine_is_never_touched() -> None:
    foreign = BootstrapToken("id1", "other", "uid-0", T0 + DAY)
    for need in Need:
        act, _ = step(BootstrapObservation(need, "id1", foreign, False, T0), LIVES)
        assert act in (BootstrapAct.NAME, BootstrapAct.FORGET)


@pytest.mark.parametrize(
    ("bootstrap", "annotation", "joined", "need"),
    [
        ({}, "", False, Need.WANTED),
        ({"certificateExpiresAt": "2026-02-01T00:00:00Z"}, "", False, Need.FETCH),
        ({"certificateExpiresAt": "2026-02-01T00:00:00Z"}, "", True, Need.NONE),
        ({"certificateExpiresAt": "2026-02-01T00:00:00Z"}, "1", False, Need.WANTED),
        ({"certificateExpiresAt": "2026-02-01T00:00:00Z"}, "1", True, Need.WANTED),
        (
            {"certificateExpiresAt": "2026-02-01T00:00:00Z", "reissued": "1"},
            "1",
            False,
            Need.FETCH,
        ),
    ],
)
def test_whether_a_host_has_to_join(
    bootstrap: dict[str, str], annotation: str, joined: bool, need: Need
) -> None:
    meta = {"name": "m", "uid": "u", "annotations": {"kubenode.io/reissue": annotation}}
    machine = a_machine(metadata=meta, status={"bootstrap": bootstrap})
    assert need_of(machine, joined=joined) is need
    gone = {**meta, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    deleted = a_machine(metadata=gone, status={"bootstrap": bootstrap})
    assert need_of(deleted, joined=joined) is Need.NONE


CERTIFICATE: dict[str, object] = {"certificateExpiresAt": "2026-02-01T00:00:00Z"}
NODE_REF: dict[str, object] = {"nodeRef": {"name": "m", "uid": "n"}}
TOO_LATE: dict[str, object] = {
    "conditions": [
        {
            "type": "Healthy",
            "status": "False",
            "reason": "StartupTimeout",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ]
}


@pytest.mark.parametrize(
    ("status", "need"),
    [
        ({}, Need.WANTED),
        ({"bootstrap": CERTIFICATE}, Need.WANTED),
        ({"bootstrap": {**CERTIFICATE, "kubelet": CERTIFICATE}}, Need.WANTED),
        ({"bootstrap": CERTIFICATE, **NODE_REF}, Need.NONE),
        ({"bootstrap": CERTIFICATE, **TOO_LATE}, Need.NONE),
    ],
)
@pytest.mark.parametrize("agent_joined", [False, True])
def test_the_token_of_a_machine_that_joins_lives_until_its_node_is_known(
    status: dict[str, object], need: Need, agent_joined: bool
) -> None:
    spec = {"addresses": ["10.0.0.1"], "node": "Join"}
    machine = a_machine(spec=spec, status=status)
    assert need_of(machine, joined=agent_joined) is need


def test_a_secret_is_bound_to_its_machine_and_owned_by_it() -> None:
    made = secret("abcdef", a_machine(), T0)
    assert made["metadata"]["annotations"]["kubenode.io/machine-uid"] == "u"
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Machine", "m", "u")
    assert made["type"] == "bootstrap.kubernetes.io/token"
    assert "usage-bootstrap-signing" not in made["data"]
    assert secret("abcdef", a_machine(), T0)["data"]["token-secret"] != made["data"]["token-secret"]
