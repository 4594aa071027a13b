"""A collector of traces for tests: OTLP over HTTP, as a real one takes it.

with OtlpReceiver() as receiver:
    started("run", "remedy", "--traces-url", receiver.url)
    receiver.spans
"""

import gzip
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

PATH = "/v1/traces"


@dataclass(frozen=True, slots=True)
class Received:
    """Ids in hexadecimal digits, `parent` "" for the first of a trace; times in seconds."""

    service: str
    name: str
    trace: str
    span: str
    parent: str
    start: float
    end: float
    about: dict[str, Any]
    error: str


class OtlpReceiver:
    """Listens on loopback as long as the `with` block lives."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: list[Received] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    raw = gzip.decompress(raw)
                if self.path != PATH:
                    self.send_error(404)
                    return
                receiver._take(ExportTraceServiceRequest.FromString(raw))
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: Any) -> None:
                """Tests look at spans."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="collector")
        self.url = f"http://127.0.0.1:{self._server.server_port}{PATH}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def spans(self) -> list[Received]:
        with self._lock:
            return list(self._spans)

    def _take(self, request: ExportTraceServiceRequest) -> None:
        with self._lock:
            for of_resource in request.resource_spans:
                service = _values(of_resource.resource.attributes)["service.name"]
                for of_scope in of_resource.scope_spans:
                    self._spans += [_received(service, span) for span in of_scope.spans]


def _received(service: str, span: Any) -> Received:
    return Received(
        service,
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.start_time_unix_nano / 1e9,
        span.end_time_unix_nano / 1e9,
        _values(span.attributes),
        span.status.message,
    )


def _values(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}
