"""Sends the spans of a program to a collector."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from kubenode.runtime.telemetry.tracing import collecting


@contextmanager
def traced(url: str, program: str) -> Iterator[None]:
    """Send spans to the collector at `url` until the block ends; "" sends none.

    Raises CannotStart.
    """
    if not url:
        yield
        return
    from kubenode.runtime.telemetry.otlp import Otlp  # large, and installed only as an extra

    tracer = Otlp(url, f"kubenode-{program}", socket.gethostname())
    try:
        with collecting(tracer):
            yield
    finally:
        tracer.close()
