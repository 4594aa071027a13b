"""Connections to members: current credentials for each call, and calls in flight end in peace."""

import json
from datetime import timedelta

import pytest
from support.clock import FakeClock

from captain.members.client import CALL_SECONDS, RemoteMember, path_of
from captain.members.cluster import MemberUnreachable
from captain.members.connections import (
    KubeconfigData,
    KubeconfigSecret,
    MemberConnections,
    decode_secret,
)
from kubenode.api.v1alpha1 import MemberCluster
from kubenode.api.v1alpha1.membercluster import PAYLOAD_KINDS, MemberReason
from kubenode.cli.member_identity import MemberEndpoint, build_kubeconfig, build_secret
from kubenode.runtime.kube.objects import KubeObjectMeta

SECRET = "kubenode-members/east"


def kubeconfig(token: str) -> bytes:
    return build_kubeconfig("east", MemberEndpoint("https://10.0.0.1:6443"), token)


def secret(raw: bytes) -> KubeconfigSecret:
    return KubeconfigSecret(KubeObjectMeta(name="east"), KubeconfigData(raw))


def cluster(paused: bool = False) -> MemberCluster:
    return MemberCluster.model_validate(
        {
            "metadata": {"name": "east", "labels": {"stage": "test"}},
            "spec": {"kubeconfigRef": "east", "paused": paused},
        }
    )


class Caches:
    def __init__(self) -> None:
        self.clusters = {"east": cluster()}
        self.secrets = {SECRET: secret(kubeconfig("a"))}
        self.clock = FakeClock()
        self.connections = MemberConnections(
            self.clusters, self.secrets, "kubenode-members", self.clock
        )

    def refuse(self) -> MemberReason:
        with pytest.raises(MemberUnreachable) as caught:
            self.connections.connect("east")
        return caught.value.reason


async def test_a_member_has_its_labels_and_is_none_without_a_member_cluster() -> None:
    caches = Caches()
    member = caches.connections.get("east")
    assert member is not None and (member.name, member.labels) == ("east", {"stage": "test"})
    assert caches.connections.get("west") is None


async def test_a_paused_member_and_one_without_usable_credentials_raise_at_each_call() -> None:
    caches = Caches()
    member = caches.connections.get("east")
    assert isinstance(member, RemoteMember)
    caches.clusters["east"] = cluster(paused=True)
    assert caches.refuse() is MemberReason.PAUSED
    with pytest.raises(MemberUnreachable, match="Paused"):
        await member.read("NodeRemedier", "a")
    caches.clusters["east"] = cluster()
    caches.secrets[SECRET] = secret(b"a: b")
    assert caches.refuse() is MemberReason.INVALID_KUBECONFIG
    del caches.secrets[SECRET]
    assert caches.refuse() is MemberReason.SECRET_MISSING


async def test_a_changed_secret_is_used_by_the_next_call_and_an_equal_one_keeps_the_client() -> (
    None
):
    caches = Caches()
    first = caches.connections.connect("east")
    caches.secrets[SECRET] = secret(kubeconfig("a"))
    assert caches.connections.connect("east") is first
    caches.secrets[SECRET] = secret(kubeconfig("b"))
    assert caches.connections.connect("east") is not first
    assert len(caches.connections) == 1


async def test_a_retired_client_is_closed_once_no_call_can_use_it() -> None:
    caches = Caches()
    first = caches.connections.connect("east")
    connection = await first.transport._first()  # type: ignore[attr-defined]  # opens its session
    caches.connections.drop("east")
    await caches.connections.sweep()
    assert not connection.session.closed
    caches.clock.step(timedelta(seconds=CALL_SECONDS))
    await caches.connections.sweep()
    assert connection.session.closed


def test_no_kind_but_those_of_a_payload_has_a_path() -> None:
    assert [path_of(kind).rpartition("/")[2] for kind in PAYLOAD_KINDS] == [
        "noderemediers",
        "machinecomponents",
        "machinecomponentsets",
        "defenderpolicies",
    ]
    for kind in ("Secret", "Permit", "Machine", "", "noderemediers"):
        with pytest.raises(ValueError, match="may not be released"):
            path_of(kind)


def test_of_a_secret_the_kubeconfig_alone_is_read() -> None:
    made = build_secret("kubenode-members", "east", b"x")
    made["data"]["other"] = made["data"]["kubeconfig"]
    read = decode_secret(json.dumps(made).encode())
    assert read.data == KubeconfigData(b"x")
