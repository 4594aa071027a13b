"""Kinds of certificates of a host. Each kind has its own signer, which identifies it."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from machine.names import AGENT_GROUP, AGENT_USER, NODE_GROUP, NODE_USER

CLIENT_AUTH, SERVER_AUTH = "client auth", "server auth"
FURTHER_USAGES = frozenset({"digital signature", "key encipherment"})
LONGEST = timedelta(days=30)
"""Longest life of an agent's certificate."""


@dataclass(frozen=True, slots=True)
class CertificateKind:
    """A kind of certificate.

    whom: the holder, for messages.
    signer: the signer in Kubernetes.
    user: prefix of the Machine's or node's name in user and CN.
    group: the only group, O.
    usage: the required key usage.
    longest: the longest life that may be requested.
    open_end: whether a request may leave the life to the signer, as kubelets do.
    by_token: whether a bootstrap token may request the first certificate.
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
"""Kinds by signer. Requests for other signers are ignored."""
