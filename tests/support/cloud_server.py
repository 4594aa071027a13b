"""A cloud's HTTP endpoint for tests: hands every request to a function, on a free port.

With levers for what no function can answer: `silent` takes requests and never answers, `gone` takes
none. Requests are kept, to be looked at.
"""

import json
import ssl
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from support.pki import Identity

MOST_BODY = 1 << 20


@dataclass(frozen=True, slots=True)
class Request:
    """form  the fields of the query and of a body that is a form"""

    method: str
    path: str
    form: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body) if self.body else None


@dataclass(frozen=True, slots=True)
class Answer:
    """body  sent as it is if it is bytes, else as JSON"""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def raw(self) -> bytes:
        if isinstance(self.body, bytes):
            return self.body
        return b"" if self.body is None else json.dumps(self.body).encode()


Check = Callable[[Request, Answer], Sequence[str]]
"""Returns how a request and its answer break the vendor's published model."""


class CloudServer:
    """check: a violation that it returns is a mistake of the test."""

    def __init__(
        self,
        answer: Callable[[Request], Answer],
        tls: Identity | None = None,
        check: Check | None = None,
    ) -> None:
        self.answer, self.check = answer, check
        self.asked: list[Request] = []
        self.silent = False
        self.mistakes: list[BaseException] = []
        """What `answer` raised: told when the server is closed."""
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.cloud = self
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls.cert_file, tls.key_file)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        self._gone = False

    def take(self, request: Request) -> Answer | None:
        """None: no answer, ever."""
        if self.silent:
            self._over.wait(60)
            return None
        with self._lock:
            self.asked.append(request)
            try:
                answer = self.answer(request)
                if self.check is not None and (problems := self.check(request, answer)):
                    raise AssertionError("; ".join(problems))
                return answer
            except Exception as mistake:
                self.mistakes.append(mistake)
                raise

    def gone(self) -> None:
        """From now on the connection is refused."""
        if not self._gone:
            self._gone = True
            self._over.set()
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    def close(self) -> None:
        self.gone()
        if self.mistakes:
            raise self.mistakes[0]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    cloud: CloudServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away in the middle are what tests make; all else is a mistake."""
        error = sys.exception()
        if error is not None and not isinstance(error, ConnectionError | ssl.SSLError):
            self.cloud.mistakes.append(error)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    timeout = 30

    def _any(self) -> None:
        length = min(int(self.headers.get("Content-Length") or 0), MOST_BODY)
        body = self.rfile.read(length)
        parts = urlsplit(self.path)
        form = dict(parse_qsl(parts.query))
        if "x-www-form-urlencoded" in (self.headers.get("Content-Type") or ""):
            form.update(parse_qsl(body.decode()))
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.cloud.take(Request(self.command, parts.path, form, headers, body))
        if answer is None:
            self.close_connection = True
            return
        raw = answer.raw
        self.send_response(answer.status)
        given = {name.lower() for name in answer.headers}
        if "content-type" not in given:
            self.send_header("Content-Type", "application/json")
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(raw)))
        if self.close_connection:  # or the client would try to use it again
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(raw)

    do_GET = do_POST = do_DELETE = do_PUT = do_PATCH = _any

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""
