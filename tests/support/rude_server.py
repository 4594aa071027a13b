"""A TLS server that never answers the end of a connection, as one that is slow or hangs."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from support.pki import Identity

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


@contextmanager
def rude_server(identity: Identity, *, answers: bool) -> Iterator[str]:
    """Its URL. It begins an answer that has no end where it `answers`, else it says nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.cert_file, identity.key_file)
    kept: list[ssl.SSLSocket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    plain, _ = listener.accept()
                except OSError:
                    return
                with suppress(OSError):
                    secured = context.wrap_socket(plain, server_side=True)
                    kept.append(secured)
                    secured.recv(65536)
                    if answers:
                        secured.sendall(HEAD)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"https://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for each in kept:
                each.close()
