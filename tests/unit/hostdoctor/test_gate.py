"""Who may tell Host Doctor something."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.clock import FakeClock

from kubenode.runtime.kube.client import Kube, as_dict
from kubenode.runtime.kube.errors import ServerUnreachable
from kubenode.runtime.kube.reviews import Unverified
from kubenode.runtime.tls.peer import Peer
from remedy.hostdoctor.gate import (
    LOOPBACK,
    DeliveryAuthenticator,
    DeliveryAuthenticatorSettings,
    DeliveryCaller,
)
from remedy.hostdoctor.serviceaccount import ACCOUNT, NODE_CLAIM, agent_token_reviewer

NOWHERE: Any = None

OLD, NEW = "0123456789abcdef-old", "0123456789abcdef-new"


def peer(name: str, *groups: str, ends: timedelta = timedelta(days=1)) -> Peer:
    return Peer(name, groups, FakeClock().now() + ends)


async def test_every_line_of_every_file_is_a_token_and_files_are_read_again(tmp_path: Path) -> None:
    first, second = tmp_path / "alertmanager", tmp_path / "grafana"
    first.write_text(f"{OLD}\n\n")
    second.write_text("grafana-0123456789abcdef\n")
    clock = FakeClock()
    gate = DeliveryAuthenticator(clock, DeliveryAuthenticatorSettings((first, second)))
    assert await gate.identify(OLD, None) == DeliveryCaller("token alertmanager")
    assert await gate.identify("grafana-0123456789abcdef", None) == DeliveryCaller("token grafana")
    first.write_text(f"{OLD}\n{NEW}\n")
    clock.step(timedelta(seconds=3))
    assert (
        await gate.identify(OLD, None)
        == await gate.identify(NEW, None)
        == DeliveryCaller("token alertmanager")
    )
    first.write_text(f"{NEW}\n")
    clock.step(timedelta(seconds=3))
    assert await gate.identify(OLD, None) is None


@pytest.mark.parametrize("shown", ["", "short", OLD[:-1], OLD + "x", "\u2028" * 20, "x" * 100_000])
async def test_nothing_else_is_a_token(tmp_path: Path, shown: str) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"{OLD}\nshort\n\n")
    assert (
        await DeliveryAuthenticator(FakeClock(), DeliveryAuthenticatorSettings((file,))).identify(
            shown, None
        )
        is None
    )


async def test_a_file_that_cannot_be_read_lets_nobody_in(tmp_path: Path) -> None:
    with pytest.raises(Unverified, match="cannot be read"):
        await DeliveryAuthenticator(
            FakeClock(), DeliveryAuthenticatorSettings((tmp_path / "none",))
        ).identify(OLD, None)


@pytest.mark.parametrize(
    ("shown", "caller"),
    [
        (peer("kubenode:agent:n1", "kubenode:agents"), DeliveryCaller("kubenode:agent:n1", "n1")),
        (peer("kubenode:agent:n1"), None),
        (peer("kubenode:agent:", "kubenode:agents"), None),
        (peer("kubenode:agent:n1", "kubenode:agents", ends=timedelta(0)), None),
        (peer("alertmanager"), DeliveryCaller("alertmanager")),
        (peer("system:node:n1", "system:nodes"), None),
        (None, None),
    ],
)
async def test_certificates(shown: Peer | None, caller: DeliveryCaller | None) -> None:
    gate = DeliveryAuthenticator(
        FakeClock(), DeliveryAuthenticatorSettings(clients=frozenset({"alertmanager"}))
    )
    assert await gate.identify("", shown) == caller


async def test_a_wrong_token_is_not_made_good_by_a_certificate() -> None:
    gate = DeliveryAuthenticator(
        FakeClock(), DeliveryAuthenticatorSettings(clients=frozenset({"alertmanager"}), anyone=True)
    )
    assert await gate.identify("wrong", peer("alertmanager")) is None
    assert await gate.identify("", None) == LOOPBACK


class Reviewing(Kube):
    """An API server that says whose token it is. `asked` counts."""

    def __init__(self, username: str, *nodes: str) -> None:
        super().__init__(NOWHERE, clock=FakeClock())
        self.asked = 0
        self.audiences: list[str] | None = None
        self.wanted: list[str] | None = None
        self._user = {"username": username, "extra": {NODE_CLAIM: list(nodes)}}

    async def create(
        self, path: str, body: Any, decode: Callable[[bytes], Any] = as_dict, query: Any = None
    ) -> Any:
        self.asked += 1
        self.wanted = body["spec"].get("audiences")
        if body["spec"]["token"] == "cut":
            raise ServerUnreachable("cut")
        good = body["spec"]["token"] == "good"
        status = {"authenticated": good, "user": self._user if good else {}}
        if self.audiences is not None:
            status["audiences"] = self.audiences
        return decode(json.dumps({"status": status}).encode())


@pytest.mark.parametrize(
    ("kube", "token", "agent"),
    [
        (Reviewing(ACCOUNT, "n1"), "good", "n1"),
        (Reviewing(ACCOUNT, "n1"), "made-up", ""),
        (Reviewing(ACCOUNT), "good", ""),
        (Reviewing(ACCOUNT, "n1", "n2"), "good", ""),
        (Reviewing("system:serviceaccount:shop:default", "n1"), "good", ""),
    ],
)
async def test_a_pod_of_the_daemonset_is_the_agent_of_its_node(
    kube: Reviewing, token: str, agent: str
) -> None:
    clock = FakeClock()
    gate = DeliveryAuthenticator(
        clock, DeliveryAuthenticatorSettings(), agent_token_reviewer(kube, clock)
    )
    for _ in range(3):
        caller = await gate.identify(token, None, of_agents=True)
        assert (caller.agent if caller is not None else "") == agent
    assert kube.asked == 1, "an answer is remembered"
    assert await gate.identify(token, None) is None, "it speaks for its machine alone"
    assert kube.asked == 1, "and is shown to nobody for anything else"
    clock.step(timedelta(minutes=2))
    await gate.identify(token, None, of_agents=True)
    assert kube.asked == 2


@pytest.mark.parametrize(
    ("audiences", "agent"),
    [
        (["kubenode-host-doctor"], "n1"),
        (["https://kubernetes.default.svc"], ""),
        ([], ""),
        (None, ""),
    ],
)
async def test_a_token_is_refused_unless_made_for_the_audience(
    audiences: list[str] | None, agent: str
) -> None:
    clock, kube = FakeClock(), Reviewing(ACCOUNT, "n1")
    kube.audiences = audiences
    gate = DeliveryAuthenticator(
        clock,
        DeliveryAuthenticatorSettings(),
        agent_token_reviewer(kube, clock, "kubenode-host-doctor"),
    )
    caller = await gate.identify("good", None, of_agents=True)
    assert (caller.agent if caller is not None else "") == agent
    assert kube.wanted == ["kubenode-host-doctor"]


async def test_a_token_that_nobody_can_judge_now_is_for_later() -> None:
    clock = FakeClock()
    gate = DeliveryAuthenticator(
        clock,
        DeliveryAuthenticatorSettings(),
        agent_token_reviewer(Reviewing(ACCOUNT, "n1"), clock),
    )
    with pytest.raises(Unverified, match="did not answer the TokenReview"):
        await gate.identify("cut", None, of_agents=True)
