"""The TLS of a server that goes on serving while its certificate is replaced.

A context that is given a new certificate uses it for the next handshake; connections that stand
keep theirs. Nothing is written to a disk: OpenSSL reads from an anonymous file in memory.
"""

import asyncio
import os
import ssl

from kubenode.runtime.tls.certificates import Pair, Unreadable


class LiveContext:
    """`loaded` is set once there is a certificate to serve with."""

    def __init__(self) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.loaded = asyncio.Event()
        self.pair: Pair | None = None

    def load(self, pair: Pair) -> None:
        """Serve with `pair` from the next handshake on. Raises Unreadable if it is none."""
        if pair == self.pair:
            return
        file = os.memfd_create("serving-certificate")
        try:
            os.write(file, pair.certificate + pair.key)
            self.context.load_cert_chain(f"/proc/self/fd/{file}")
        except ssl.SSLError as error:
            raise Unreadable(f"no certificate with its key: {error}") from error
        finally:
            os.close(file)
        self.pair = pair
        self.loaded.set()
