"""Does another node answer, seen from here? One witness of several; nobody acts on its word alone.

Asked for is a kubelet that speaks: a system that hangs still completes TCP handshakes in its
kernel, so a TLS handshake has to be answered too. A refused connection is an answer: the host's
system says that nobody listens. The witness looks at a second node that is known to be well, so
that one who reaches nobody is not believed.
"""

import asyncio
import contextlib
import errno
import ipaddress
import ssl
from collections.abc import Mapping

from agent.probes import Answer, CannotAnswer

CONNECT_SECONDS = 3.0
"""For connecting and being answered."""
_SILENT = frozenset({errno.EHOSTUNREACH, errno.ETIMEDOUT, errno.EHOSTDOWN})
"""What the way to the other host says; every other error is our own trouble."""


async def peers(args: Mapping[str, str]) -> Answer:
    """`reached` and `control`: whether each of the two answered. Raises CannotAnswer."""
    target = _address(args, "address", "port")
    control = _address(args, "controlAddress", "controlPort")
    reached, controlled = await asyncio.gather(answers(*target), answers(*control))
    return {"reached": reached, "control": controlled}


async def answers(host: str, port: int, seconds: float = CONNECT_SECONDS) -> bool:
    """Raises CannotAnswer when this host cannot even try."""
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(host, port, ssl=_anybody())
        return True
    except (ConnectionError, ssl.SSLError, EOFError):
        return True  # refused, hung up, or no TLS: somebody is there to say so
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
    """Who answers does not matter, and nothing is said to them."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _address(args: Mapping[str, str], host: str, port: str) -> tuple[str, int]:
    """Only the address of a host: never a name to look up, never ourselves."""
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
