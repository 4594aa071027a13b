"""The probe `peers`: whether another node answers, as seen from this host.

It is one witness of several; no decision depends on one witness alone. The target is a responsive
kubelet: a system that hangs still completes TCP handshakes in its kernel, so a TLS handshake must
be answered too. A refused connection is an answer: the host's system reports that nothing listens.
The witness also probes a second node that is known to be healthy, so that a witness that reaches no
node is not believed.
"""

import asyncio
import contextlib
import errno
import ipaddress
import ssl
from collections.abc import Mapping

from agent.probes import Answer, CannotAnswer

CONNECT_SECONDS = 3.0
"""Seconds for the connection and its TLS handshake."""
_SILENT = frozenset({errno.EHOSTUNREACH, errno.ETIMEDOUT, errno.EHOSTDOWN})
"""Errors of the path to the other host. Every other error is a local problem."""


async def peers(args: Mapping[str, str]) -> Answer:
    """Return `reached` and `control`: whether each of the two nodes answered. Raises
    CannotAnswer.
    """
    target = _address(args, "address", "port")
    control = _address(args, "controlAddress", "controlPort")
    reached, controlled = await asyncio.gather(answers(*target), answers(*control))
    return {"reached": reached, "control": controlled}


async def answers(host: str, port: int, seconds: float = CONNECT_SECONDS) -> bool:
    """Whether the host answers. Raises CannotAnswer if this host cannot even try."""
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(host, port, ssl=_anybody())
        return True
    except (ConnectionError, ssl.SSLError, EOFError):
        return True  # refused, closed, or no TLS: a system is there to answer
    except TimeoutError:
        return False
    except OSError as error:
        if error.errno in _SILENT:
            return False
        raise CannotAnswer(f"connect to {host} port {port}: {error.strerror or error}") from error
    finally:
        if writer is not None:
            writer.transport.abort()
            with contextlib.suppress(OSError, ssl.SSLError):
                await writer.wait_closed()


def _anybody() -> ssl.SSLContext:
    """Return a context without verification: the identity does not matter, and no data is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _address(args: Mapping[str, str], host: str, port: str) -> tuple[str, int]:
    """Return the address of another host. Raises CannotAnswer for a name, or a local address."""
    given, number = args.get(host, ""), args.get(port, "")
    try:
        address = ipaddress.ip_address(given)
    except ValueError as error:
        raise CannotAnswer(f"{host} {given!r} is no IP address") from error
    if address.is_loopback or address.is_multicast or address.is_unspecified:
        raise CannotAnswer(f"{host} {given} is no address of another host")
    if not number.isdecimal() or not 0 < int(number) < 65536:
        raise CannotAnswer(f"{port} {number!r} is no port")
    return given, int(number)
