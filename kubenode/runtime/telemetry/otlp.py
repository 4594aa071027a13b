"""Sends spans to a collector by OTLP over HTTP. Only this module imports opentelemetry.

The SDK's batch processor has a bounded queue and a thread of its own: a slow or missing collector
loses spans, and never delays the program. Settings besides the address (headers with a token,
authorities) come from the standard OTEL_EXPORTER_OTLP_* variables.
"""

import threading
from datetime import datetime
from importlib.metadata import version

from kubenode.runtime.process import CannotStart
from kubenode.runtime.telemetry.tracing import TraceSpan

try:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags
except ImportError as error:
    raise CannotStart(
        f"--traces-url needs the extra kubenode[traces], which is not installed: {error}"
    ) from error

QUEUE = 8192
"""Most spans that wait. Further ones are lost."""
BATCH = 512
EVERY_MILLISECONDS = 2000
TIMEOUT_SECONDS = 5.0
CLOSE_SECONDS = 5.0
LONGEST = 1024
"""Characters of an attribute or an error."""
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class Otlp:
    """A Tracer that sends spans to a collector.

    url: of the collector with its path: `http://HOST:4318/v1/traces`
    service: the program, such as `kubenode-remedy`
    instance: which of its replicas
    """

    def __init__(self, url: str, service: str, instance: str) -> None:
        ours = version("kubenode")
        self._resource = Resource(
            {
                "service.name": service,
                "service.instance.id": instance,
                "service.version": ours,
            }
        )
        self._scope = InstrumentationScope("kubenode", ours)
        self._processor = BatchSpanProcessor(
            OTLPSpanExporter(endpoint=url, timeout=TIMEOUT_SECONDS),
            max_queue_size=QUEUE,
            max_export_batch_size=BATCH,
            schedule_delay_millis=EVERY_MILLISECONDS,
        )

    def emit(self, span: TraceSpan) -> None:
        trace = int(span.place.trace, 16)
        parent = _context(trace, span.parent) if span.parent else None
        failed = Status(StatusCode.ERROR, span.error[:LONGEST]) if span.error else Status()
        self._processor.on_end(
            ReadableSpan(
                span.name,
                context=_context(trace, span.place.span),
                parent=parent,
                resource=self._resource,
                attributes={k: _short(v) for k, v in span.about.items()},
                kind=SpanKind.INTERNAL,
                status=failed,
                start_time=_nanoseconds(span.start),
                end_time=_nanoseconds(max(span.start, span.end)),
                instrumentation_scope=self._scope,
            )
        )

    def close(self) -> None:
        """Send the waiting spans, for at most CLOSE_SECONDS."""
        closing = threading.Thread(target=self._processor.shutdown, daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)


def _context(trace: int, span: str) -> SpanContext:
    return SpanContext(trace, int(span, 16), is_remote=False, trace_flags=_SAMPLED)


def _short(value: str | int | float | bool) -> str | int | float | bool:
    return value[:LONGEST] if isinstance(value, str) else value


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000) * 1000
