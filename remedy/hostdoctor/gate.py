"""Authenticates callers of Host Doctor: bearer tokens from files, and client certificates.

    token        every line of each file is one, so an old and a new token are valid together; files
                 are read again, so no restart is needed. Tokens of a file named as a cloud are only
                 valid for that cloud's own endpoint
    account      service account of the agents' DaemonSet, for the machine of its pod's node; only
                 on the endpoint of agents
    certificate  of an agent (`kubenode:agent:NAME`, group `kubenode:agents`): only for its own
                 machine; with a listed common name: for every endpoint but that of agents

The authority that signs for agents signs for many others too, so a certificate alone proves
nothing.
"""

from dataclasses import dataclass
from pathlib import Path

from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.reviews import TokenReviewer
from kubenode.runtime.tls.peer import Peer
from kubenode.runtime.token_files import LONGEST_TOKEN, TokenFiles
from remedy.hostdoctor.serviceaccount import agent_of

AGENT_PREFIX, AGENT_GROUP = "kubenode:agent:", "kubenode:agents"
ALIBABA = "alibaba"
CLOUDS = frozenset({ALIBABA})
"""Names of token files. Bearers of their tokens speak for this cloud: its events open limits of
Kube Defender that no other source opens.
"""


@dataclass(frozen=True, slots=True)
class DeliveryCaller:
    """An authenticated caller.

    name: for audit lines and rates: `token alertmanager-token`, `kubenode:agent:n00042`
    agent: name of the agent; "" for others
    cloud: the cloud that it speaks for, one of CLOUDS; "" for others
    """

    name: str
    agent: str = ""
    cloud: str = ""


LOOPBACK = DeliveryCaller("loopback")


@dataclass(frozen=True, slots=True)
class DeliveryAuthenticatorSettings:
    """Settings of the authenticator.

    clients: common names of certificates that may deliver
    anyone: callers without credentials may deliver too: for loopback only
    audience: audience of agents' tokens; "" is the API server itself
    """

    token_files: tuple[Path, ...] = ()
    clients: frozenset[str] = frozenset()
    anyone: bool = False
    audience: str = ""


class DeliveryAuthenticator:
    """Authenticates callers. `reviews` None: agents have no service account."""

    def __init__(
        self,
        clock: Clock,
        settings: DeliveryAuthenticatorSettings,
        reviews: TokenReviewer | None = None,
    ) -> None:
        self._clock, self._settings, self._reviews = clock, settings, reviews
        self._tokens = TokenFiles(settings.token_files, clock)

    async def identify(
        self, token: str, peer: Peer | None, *, of_agents: bool = False
    ) -> DeliveryCaller | None:
        """Return the caller; None if the credentials are not accepted. A token takes precedence
        over a certificate.

        of_agents: whether an agent is expected; only then unknown tokens are sent to the API server
            for review

        Raises Unverified.
        """
        if token and of_agents:
            return await self._serviced(token)
        if token:
            return self._bearer(token)
        if peer is not None:
            return self._certified(peer)
        return LOOPBACK if self._settings.anyone else None

    def _bearer(self, token: str) -> DeliveryCaller | None:
        for name in self._tokens.names_of(token):
            return DeliveryCaller(f"token {name}", cloud=name if name in CLOUDS else "")
        return None

    async def _serviced(self, token: str) -> DeliveryCaller | None:
        if (known := self._bearer(token)) is not None:
            return known  # no agent: the endpoint of agents rejects it
        if self._reviews is None or len(token) > LONGEST_TOKEN:
            return None
        user = await self._reviews.user(token)
        agent = agent_of(user) if user is not None else ""
        return DeliveryCaller(f"service account of agent {agent}", agent) if agent else None

    def _certified(self, peer: Peer) -> DeliveryCaller | None:
        if peer.ends <= self._clock.now():
            return None  # it expired since the connection began
        if peer.name.startswith(AGENT_PREFIX):
            agent = peer.name.removeprefix(AGENT_PREFIX)
            ours = agent and AGENT_GROUP in peer.organizations
            return DeliveryCaller(peer.name, agent) if ours else None
        return DeliveryCaller(peer.name) if peer.name in self._settings.clients else None
