"""Traces: what a fault's way consisted of and how long each part took, told to whoever collects.

Nothing here knows how spans are sent: `kubenode.runtime.telemetry.otlp` does, and only where an
address is set. While nobody collects, `on()` is False and nothing is computed.
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
    """A part that is over.

    parent  the span that it is a part of; "" for the fault itself
    error   what went wrong; "": nothing
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
        """Take a span; never raises, never waits."""
        ...


_tracer: Tracer | None = None
_here: ContextVar[SpanContext | None] = ContextVar("kubenode_span", default=None)


def on() -> bool:
    """Whether anybody collects."""
    return _tracer is not None


def emit(span: TraceSpan) -> None:
    if _tracer is not None:
        _tracer.emit(span)


@contextlib.contextmanager
def collecting(tracer: Tracer | None) -> Iterator[None]:
    """All spans of the process go to `tracer` until the end of the block; None: to nobody."""
    global _tracer
    before, _tracer = _tracer, tracer
    try:
        yield
    finally:
        _tracer = before


def here() -> SpanContext | None:
    """The span that this task is in."""
    return _here.get()


def headers() -> dict[str, str]:
    """Of a call to another process of ours."""
    place = _here.get()
    return {} if place is None else {TRACEPARENT: place.header}


@contextlib.contextmanager
def within(place: SpanContext | None) -> Iterator[None]:
    """What is called in the block belongs to `place`."""
    token = _here.set(place)
    try:
        yield
    finally:
        _here.reset(token)


@dataclass(slots=True)
class Doing:
    """What is told of a part while it goes on."""

    about: dict[str, Value] = field(default_factory=dict)
    error: str = ""


@contextlib.contextmanager
def span(name: str, clock: Clock, parent: SpanContext | None, **about: Value) -> Iterator[Doing]:
    """One part, told at its end. What it raises is told and goes on. Nothing without `parent`."""
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
