"""The TLS of a server that goes on serving while its certificate is replaced.

A context uses a new certificate from the next handshake on; open connections keep theirs. Nothing
is written to a disk: OpenSSL reads from an anonymous file in memory.

Authorities can be added to a context, but not removed. So each set of authorities for clients has a
context of its own, to which a handshake is moved as soon as it begins.
"""

import asyncio
import os
import ssl

from kubenode.runtime.tls.certificates import Pair, UnreadablePem


class LiveContext:
    """The context of a server. `loaded` is set once there is a certificate."""

    def __init__(self) -> None:
        self.context = _new_context()
        self.loaded = asyncio.Event()
        self.pair: Pair | None = None
        self._asking: ssl.SSLContext | None = None
        self._authorities = b""

    def load(self, pair: Pair) -> None:
        """Serve with `pair` from the next handshake on. Raises UnreadablePem."""
        if pair == self.pair:
            return
        for context in (self.context, self._asking):
            if context is not None:
                _load(context, pair)
        self.pair = pair
        self.loaded.set()

    def trust(self, authorities: bytes) -> None:
        """Request certificates from clients, and accept those that these PEM authorities signed.

        A client without a certificate is served as well: the application decides whom it answers.
        Raises UnreadablePem; the earlier authorities then remain.
        """
        if authorities == self._authorities:
            return
        asking = _new_context()
        try:
            asking.load_verify_locations(cadata=authorities.decode())
        except (ssl.SSLError, UnicodeDecodeError) as error:
            raise UnreadablePem(f"no PEM certificates of authorities: {error}") from error
        if not asking.get_ca_certs():
            raise UnreadablePem("no certificate of an authority is in it")
        if self.pair is not None:
            _load(asking, self.pair)
        self._asking, self._authorities = asking, authorities
        for context in (self.context, asking):
            context.verify_mode = ssl.CERT_OPTIONAL
            # A session ticket would resume a verification by earlier authorities.
            context.options |= ssl.OP_NO_TICKET
            context.num_tickets = 0
        self.context.sni_callback = self._move

    def _move(self, handshake: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        if self._asking is not None:
            handshake.context = self._asking


def _new_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _load(context: ssl.SSLContext, pair: Pair) -> None:
    file = os.memfd_create("serving-certificate")
    try:
        os.write(file, pair.certificate + pair.key)
        context.load_cert_chain(f"/proc/self/fd/{file}")
    except ssl.SSLError as error:
        raise UnreadablePem(f"no certificate with its key: {error}") from error
    finally:
        os.close(file)
