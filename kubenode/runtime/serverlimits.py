"""Limits of one of our HTTP servers. `kubenode.runtime.httplimits` applies them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Limits of one server.

    read_seconds: from the connection, or the first byte of a later request, until that request is
        complete: handshake, head and body
    connections: open at once
    per_address: open at once from one address
    body_bytes: of all bodies that are being read or handled; one address gets half of them
    """

    read_seconds: float = 10.0
    connections: int = 512
    per_address: int = 256
    body_bytes: int = 24 * 2**20


DEFAULT = HttpLimits()
