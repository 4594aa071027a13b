"""Listening on a port, and what to do if that fails."""

import errno
import socket

from kubenode.runtime.process import CannotStart

BACKLOG = 1024


def listen(address: str, port: int, flag: str) -> socket.socket:
    """Open a listening TCP socket. `port` 0 takes a free one; errors name `flag`.

    Raises CannotStart.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise cannot_listen(error, address, port, flag) from error
    return listener


def cannot_listen(error: OSError, address: str, port: int, flag: str) -> CannotStart:
    """Build the error for a person who chose this address, or left it at its default."""
    where = f"port {port} on {address}"
    match error.errno:
        case errno.EADDRINUSE:
            return CannotStart(f"{where} is taken; stop what uses it or choose another with {flag}")
        case errno.EACCES:
            return CannotStart(f"{where} needs root; choose one above 1023 with {flag}")
        case _:
            return CannotStart(f"cannot listen on {where}: {error.strerror or error}; see {flag}")
