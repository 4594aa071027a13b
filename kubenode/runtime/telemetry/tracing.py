"""Traces: the steps of a fault's handling and how long each took, for a collector.

This module does not know how spans are sent. `kubenode.runtime.telemetry.otlp` does, and only if an
address is set. Without a collector `on()` is False and nothing is computed.
"""

import contextlib
import secrets
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from kubenode.runtime.clock import Clock
from kubenode.runtime.telemetry.places import TRACEPARENT, SpanContext

Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """A step that has ended.

    parent: the span that it is a part of, "" for the fault itself
    error: what went wrong, "" for nothing
    """

    name: str
    place: SpanContext
    parent: str
    start: datetime
    end: datetime
    about: Mapping[str, Value] = field(default_factory=dict)
    error: str = ""


class Tracer(Protocol):
    def emit(self, span: TraceSpan) -> None:
        """Take a span. Never raises, never waits."""
        ...


_tracer: Tracer | None = None
_here: ContextVar[SpanContext | None] = ContextVar("kubenode_span", default=None)


def on() -> bool:
    """Return whether there is a collector."""
    return _tracer is not None


def emit(span: TraceSpan) -> None:
    if _tracer is not None:
        _tracer.emit(span)


@contextlib.contextmanager
def collecting(tracer: Tracer | None) -> Iterator[None]:
    """Send all spans of the process to `tracer` in the block; None discards them."""
    global _tracer
    before, _tracer = _tracer, tracer
    try:
        yield
    finally:
        _tracer = before


def here() -> SpanContext | None:
    """Return the span that this task is in, None for none."""
    return _here.get()


def headers() -> dict[str, str]:
    """Return the headers of a call to another of our processes."""
    place = _here.get()
    return {} if place is None else {TRACEPARENT: place.header}


@contextlib.contextmanager
def within(place: SpanContext | None) -> Iterator[None]:
    """Make `place` the span of the block."""
    token = _here.set(place)
    try:
        yield
    finally:
        _here.reset(token)


@dataclass(slots=True)
class Doing:
    """Attributes and error of a span that has not ended, to be filled in."""

    about: dict[str, Value] = field(default_factory=dict)
    error: str = ""


@contextlib.contextmanager
def span(name: str, clock: Clock, parent: SpanContext | None, **about: Value) -> Iterator[Doing]:
    """Emit a span for the block at its end. Exceptions are recorded and propagate.

    Does nothing without a `parent` or a collector.
    """
    doing = Doing(dict(about))
    if _tracer is None or parent is None:
        yield doing
        return
    place = replace(parent, span=secrets.token_hex(8))
    start = clock.now()
    try:
        with within(place):
            yield doing
    except BaseException as error:
        doing.error = doing.error or f"{type(error).__name__}: {error}"
        raise
    finally:
        emit(TraceSpan(name, place, parent.span, start, clock.now(), doing.about, doing.error))
