"""A site's web server for packages, which new hosts fetch their agent from."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any


@contextmanager
def served(folder: Path, address: str) -> Iterator[str]:
    """The folder, by HTTP at this address; its URL."""
    handler = partial(QuietFiles, directory=str(folder))
    server = ThreadingHTTPServer((address, 0), handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://{address}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class QuietFiles(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Tests are quiet."""
