"""The certificates that a host has: each kind has a signer of its own, which tells them apart."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from machine.names import AGENT_GROUP, AGENT_USER, NODE_GROUP, NODE_USER

CLIENT_AUTH, SERVER_AUTH = "client auth", "server auth"
FURTHER_USAGES = frozenset({"digital signature", "key encipherment"})
LONGEST = timedelta(days=30)
"""Of an agent's certificate."""


@dataclass(frozen=True, slots=True)
class CertificateKind:
    """whom      it identifies, in words
    signer    of Kubernetes
    user      before the Machine's or the node's name: user and CN
    group     the one group, O
    usage     that it is for
    longest   that it may be asked for
    open_end  whether a request may leave its life to the signer, as kubelets do
    by_token  whether a bootstrap token gets the first one
    """

    whom: str
    signer: str
    user: str
    group: str
    usage: str
    longest: timedelta
    open_end: bool
    by_token: bool


AGENT: Final = CertificateKind(
    "the agent",
    "kubernetes.io/kube-apiserver-client",
    AGENT_USER,
    AGENT_GROUP,
    CLIENT_AUTH,
    LONGEST,
    open_end=False,
    by_token=True,
)
KUBELET: Final = CertificateKind(
    "the kubelet",
    "kubernetes.io/kube-apiserver-client-kubelet",
    NODE_USER,
    NODE_GROUP,
    CLIENT_AUTH,
    timedelta(days=365),
    open_end=True,
    by_token=True,
)
SERVING: Final = CertificateKind(
    "the kubelet's server",
    "kubernetes.io/kubelet-serving",
    NODE_USER,
    NODE_GROUP,
    SERVER_AUTH,
    timedelta(days=365),
    open_end=True,
    by_token=False,
)
BY_SIGNER: Final = {kind.signer: kind for kind in (AGENT, KUBELET, SERVING)}
"""Requests of other signers are none of ours."""
