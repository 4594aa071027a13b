"""Who may tell Host Doctor something: bearers of a token from a file, and client certificates.

    token          every line of each file is one, so an old and a new one are good side by side;
                   files are read again, so nothing has to be restarted. Those of a file that is
                   named as a cloud are for that cloud's own endpoint, and for nothing else
    service        of the agents' DaemonSet, for the machine of its pod's node; only where an agent
    account        may speak
    certificate    of an agent (`kubenode:agent:NAME`, group `kubenode:agents`): for its own machine
                   alone; of a common name that is listed: for everything but agents' words

The authority that signs for agents signs for many others too, so a certificate alone is nobody.
"""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kubenode.runtime.clock import Clock
from kubenode.runtime.tls.peer import Peer
from remedy.hostdoctor.reviews import TokenReviews, TokenUnverified

AGENT_PREFIX, AGENT_GROUP = "kubenode:agent:", "kubenode:agents"
ALIBABA = "alibaba"
CLOUDS = frozenset({ALIBABA})
"""Names of token files whose bearers speak as this cloud: its word opens limits of Kube Defender
that nobody else's does."""
READ_EVERY = 2.0
"""Seconds; how late a changed token file is noticed."""
SHORTEST_TOKEN, LONGEST_TOKEN = 16, 4096


class CallerUnverified(Exception):
    """Who it is cannot be found out now: nobody is let in, and the same caller may try again."""


@dataclass(frozen=True, slots=True)
class DeliveryCaller:
    """name   for audit lines and rates: `token alertmanager-token`, `kubenode:agent:n00042`
    agent  the agent that it is; "" for others
    cloud  the cloud that it speaks as, of CLOUDS; "" for others
    """

    name: str
    agent: str = ""
    cloud: str = ""


LOOPBACK = DeliveryCaller("loopback")


@dataclass(frozen=True, slots=True)
class DeliveryAuthenticatorSettings:
    """clients   common names whose certificates may deliver
    anyone    who shows nothing may deliver too: for loopback alone
    audience  whom agents' tokens must be made for; "" is the API server itself
    """

    token_files: tuple[Path, ...] = ()
    clients: frozenset[str] = frozenset()
    anyone: bool = False
    audience: str = ""


class DeliveryAuthenticator:
    """reviews  None: no agent has a service account"""

    def __init__(
        self,
        clock: Clock,
        settings: DeliveryAuthenticatorSettings,
        reviews: TokenReviews | None = None,
    ) -> None:
        self._clock, self._settings, self._reviews = clock, settings, reviews
        self._tokens: Sequence[tuple[str, bytes]] = ()
        self._read_at = float("-inf")

    async def identify(
        self, token: str, peer: Peer | None, *, of_agents: bool = False
    ) -> DeliveryCaller | None:
        """Who shows this; None: nobody. A shown token counts, whatever the certificate says.

        of_agents  whether an agent is expected: others' tokens are shown to nobody

        Raises Unreadable.
        """
        if token and of_agents:
            return await self._serviced(token)
        if token:
            return self._bearer(token)
        if peer is not None:
            return self._certified(peer)
        return LOOPBACK if self._settings.anyone else None

    def _bearer(self, token: str) -> DeliveryCaller | None:
        if len(token) > LONGEST_TOKEN:
            return None
        shown = token.encode(errors="replace")
        found = None
        for name, wanted in self._all():
            if hmac.compare_digest(shown, wanted):
                found = found or DeliveryCaller(
                    f"token {name}", cloud=name if name in CLOUDS else ""
                )
        return found

    async def _serviced(self, token: str) -> DeliveryCaller | None:
        if (known := self._bearer(token)) is not None:
            return known  # who speaks for no agent, and is told so
        if self._reviews is None or len(token) > LONGEST_TOKEN:
            return None
        try:
            agent = await self._reviews.agent(token)
        except TokenUnverified as error:
            raise CallerUnverified(str(error)) from None
        return DeliveryCaller(f"service account of agent {agent}", agent) if agent else None

    def _all(self) -> Sequence[tuple[str, bytes]]:
        now = self._clock.monotonic()
        if now - self._read_at >= READ_EVERY:
            self._tokens = read_tokens(self._settings.token_files)
            self._read_at = now
        return self._tokens

    def _certified(self, peer: Peer) -> DeliveryCaller | None:
        if peer.ends <= self._clock.now():
            return None  # it was valid when the connection began
        if peer.name.startswith(AGENT_PREFIX):
            agent = peer.name.removeprefix(AGENT_PREFIX)
            ours = agent and AGENT_GROUP in peer.organizations
            return DeliveryCaller(peer.name, agent) if ours else None
        return DeliveryCaller(peer.name) if peer.name in self._settings.clients else None


def read_tokens(files: Sequence[Path]) -> Sequence[tuple[str, bytes]]:
    """Name of the file and token, of every line. Raises Unreadable."""
    found = []
    for path in files:
        try:
            lines = path.read_text().splitlines()
        except (OSError, ValueError) as error:
            raise CallerUnverified(f"token file {path} cannot be read: {error}") from None
        for line in lines:
            # A short one could be guessed, and an empty one is shown by whoever shows nothing.
            if len(token := line.strip()) >= SHORTEST_TOKEN:
                found.append((path.name, token.encode()))
    return found
