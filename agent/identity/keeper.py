"""Manages the agent's certificate: requests the first one, renews it, and reports problems."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from agent.identity import keys, messages, pem
from agent.identity.issuance import (
    CertificateDenied,
    CertificateUnanswered,
    certificate,
    request_name,
    token_mark,
    works_as,
)
from agent.identity.keys import ChildFailed
from agent.identity.pem import AGENT_USER, BadPem, Validity
from agent.identity.store import IdentityStore, StoreError
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError, Unauthorized
from kubenode.runtime.kube.plain import PlainTransport
from kubenode.runtime.kube.transport import CredentialsError, Transport
from kubenode.runtime.rate import Backoff, Spread

log = logging.getLogger(__name__)

RETRY_LOW, RETRY_HIGH = 5.0, 300.0
CHECK_SECONDS = 300.0
"""Seconds after which the wall clock and the authority's file are read again; both may change at
any time.
"""
OWN = "c"
"""Mark in the name of a request that uses the certificate to be renewed."""
UNREADABLE = "Credentials"
"""Reason of an Unauthorized error caused by local files, not by the server."""
LEAST_APART = 60.0
"""Minimum seconds between two renewals, whatever the wall clock says."""


class NoIdentity(Exception):
    """Neither a working certificate nor a working token. The text says what a person can do."""


TROUBLE = (
    NoIdentity,
    CertificateDenied,
    CertificateUnanswered,
    BadPem,
    ChildFailed,
    StoreError,
    KubeError,
    OSError,
)
"""Errors that are reported and retried. OSError: no child can be started."""


@dataclass(frozen=True, slots=True)
class IdentityTarget:
    """Target of an identity.

    agent: name in the certificate
    server: https://HOST:PORT of the API server
    ca_file: PEM of its certificate authority; "": the system's
    token_file: file of a bootstrap token, read anew for each use; "" for none
    seconds: requested lifetime of a certificate
    """

    agent: str
    server: str
    ca_file: str = ""
    token_file: str = ""
    seconds: int = 30 * 24 * 3600


class IdentityKeeper:
    """Part: manages the certificate. `there` is set as soon as a certificate exists, even an
    expired one.

    kube: the agent's client, which uses `store.current`
    others: connections to other servers under the same certificate
    """

    name = "identity"

    def __init__(
        self,
        wanted: IdentityTarget,
        store: IdentityStore,
        kube: Kube,
        clock: Clock,
        *,
        others: Sequence[Transport] = (),
        spread: Spread = random.random,
        check_seconds: float = CHECK_SECONDS,
    ) -> None:
        self.there = asyncio.Event()
        self.renewed = 0
        self._wanted, self._store, self._kube, self._clock = wanted, store, kube, clock
        self._backoff = Backoff(RETRY_LOW, RETRY_HIGH, spread)
        self._check_seconds = check_seconds
        self._transports = (kube.transport, *others)
        self.trouble = ""
        self._rests_until = float("-inf")
        self._authority = self._read_authority()
        if store.read_current():
            self.there.set()

    async def run(self) -> None:
        while True:
            await self._clock.sleep(await self.renew_if_due())

    async def renew_if_due(self) -> float:
        """Request or renew the certificate if it is due; return the seconds until the next
        check.
        """
        await self._follow_authority()
        try:
            known = self._known()
            if known is not None and (remaining := self._seconds_until_renewal(known)) > 0:
                self._well()
                return min(self._check_seconds, max(1.0, remaining))
            await self._obtain(known)
        except TROUBLE as error:
            self._tell(error)
            return self._backoff.next()
        self._backoff.reset()
        self._well()
        self.renewed += 1
        self._rest()
        return LEAST_APART

    async def _follow_authority(self) -> None:
        """Reload the credentials if the authority's file has changed.

        A server certificate of another authority causes no 401 that would trigger a reload.
        """
        if (now := self._read_authority()) and now != self._authority:
            self._authority = now
            await self._reload()

    def _read_authority(self) -> bytes:
        return _read(self._wanted.ca_file)

    # -- current state ----------------------------------------------------------------------------

    def _known(self) -> Validity | None:
        """Return the validity of the current certificate, which was checked on arrival; None if
        there is none.
        """
        pair = self._store.read_current()
        if not pair:
            return None
        try:
            return pem.read_validity(pair)
        except BadPem as error:
            log.warning("the agent's certificate is of no use", extra={"why": str(error)})
            return None

    def _spread(self) -> float:
        return pem.spread_of(self._store.read_current())

    def _seconds_until_renewal(self, known: Validity) -> float:
        """Return the seconds until the renewal; 0 or less: now."""
        remaining = (known.due_at(self._spread()) - self._clock.now()).total_seconds()
        return max(remaining, self._rests_until - self._clock.monotonic())

    def _rest(self) -> None:
        """Delay the next renewal if the new certificate is already due.

        In that case the local wall clock is ahead. The certificate's age then counts from now;
        otherwise it would be renewed repeatedly.
        """
        known = self._known()
        if known is not None and self._seconds_until_renewal(known) <= 0:
            self._rests_until = self._clock.monotonic() + known.life.total_seconds() / 3

    # -- requests ---------------------------------------------------------------------------------

    async def _obtain(self, known: Validity | None) -> None:
        if await self._resumed():
            return
        if known is not None:
            try:
                await self._request_certificate(self._kube, OWN)
                return
            except Unauthorized as error:
                if not self._token():
                    raise NoIdentity(self._lost(known)) from error
            except CertificateDenied:
                if not self._token():
                    raise
        token = self._token()
        if not token:
            raise NoIdentity(messages.no_token(self._wanted.agent, self._wanted.token_file))
        try:
            async with self._bootstrapping() as kube:
                await self._request_certificate(kube, token_mark(token))
        except Unauthorized as error:
            raise NoIdentity(
                messages.refused(self._wanted.agent, self._wanted.token_file)
            ) from error

    async def _resumed(self) -> bool:
        """Whether a pair that was written before a restart works; it is then in use."""
        pair = self._store.read_next()
        if not pair:
            return False
        try:
            await keys.check(self._wanted.agent, pair)
            await self._adopt()
        except BadPem:
            self._store.drop()
            return False
        return True

    async def _request_certificate(self, kube: Kube, asker: str) -> None:
        agent = self._wanted.agent
        stored_key = self._store.read_key()
        # Never reuse the key of the current certificate; a kill after `adopt` can leave it stored.
        known = stored_key if stored_key not in self._store.read_current() else b""
        key, request, fingerprint = await keys.request(agent, known)
        if key != stored_key:
            self._store.keep_key(key)  # before its first use
        name = request_name(agent, fingerprint, asker)
        try:
            got = await certificate(kube, self._clock, name, request, self._wanted.seconds)
        except CertificateDenied:
            self._store.drop()  # the next request must differ, with another key
            raise
        pair = key + got
        try:
            await keys.check(agent, pair)
        except BadPem:
            self._store.drop()  # a request of the same name by somebody else
            raise
        self._store.keep_next(pair)
        await self._adopt()

    async def _adopt(self) -> None:
        """Use the next pair after the API server has accepted it as this agent's."""
        path, agent = str(self._store.next), self._wanted.agent
        async with self._under(cert_file=path, key_file=path) as kube:
            try:
                user = await works_as(kube)
            except Unauthorized as error:
                if error.reason == UNREADABLE:
                    raise
                raise BadPem(f"the API server refuses the new certificate: {error}") from error
        if user != f"{AGENT_USER}{agent}":
            raise BadPem(f"the API server takes the new certificate for {user or 'nobody'}")
        self._store.adopt()
        self.there.set()
        await self._reload()
        log.info("the agent has a new certificate", extra={"agent": agent})

    async def _reload(self) -> None:
        for transport in self._transports:
            try:
                await transport.reload(transport.generation)
            except CredentialsError as error:
                log.warning("new credentials are not used yet", extra={"why": str(error)})

    # -- connections ------------------------------------------------------------------------------

    @asynccontextmanager
    async def _bootstrapping(self) -> AsyncIterator[Kube]:
        async with self._under(token_file=self._wanted.token_file) as kube:
            yield kube

    @asynccontextmanager
    async def _under(
        self, cert_file: str = "", key_file: str = "", token_file: str = ""
    ) -> AsyncIterator[Kube]:
        """Create a separate client, closed afterwards; no other client uses its credentials."""
        transport = PlainTransport(
            self._wanted.server,
            self._wanted.ca_file or None,
            cert_file or None,
            key_file or None,
            token_file or None,
            user_agent="kubenode-agent",
        )
        kube = Kube(transport, clock=self._clock)
        try:
            yield kube
        finally:
            await kube.close()

    def _token(self) -> bytes:
        return _read(self._wanted.token_file).strip()

    # -- messages ---------------------------------------------------------------------------------

    def _lost(self, known: Validity) -> str:
        return messages.lost(self._wanted.agent, self._wanted.token_file, known)

    def _tell(self, error: Exception) -> None:
        """Log the error, once per change of its text."""
        if (text := f"{error}") != self.trouble:
            self.trouble = text
            log.error("the agent gets no certificate", extra={"why": text})

    def _well(self) -> None:
        self.trouble = ""


def _read(path: str) -> bytes:
    """Read the file; b"" for no path, or a file that cannot be read."""
    try:
        return Path(path).read_bytes() if path else b""
    except OSError:
        return b""
