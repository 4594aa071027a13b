"""Identifiers of spans, and their propagation from one process to another. Pure.

A trace is one fault. Its ID, and those of spans that outlive a process, derive from stored names.
So a process that continues after a restart joins the same trace, and a span that is sent twice is
one span.
"""

import re
from dataclasses import dataclass
from hashlib import blake2b

TRACEPARENT = "traceparent"
"""HTTP header with the span that a call belongs to. Source: W3C Trace Context."""
ANNOTATION = "kubenode.io/traceparent"
"""Annotation of a job: the span of its fault, in the form of the header."""
_HEADER = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class SpanContext:
    """Identifier of a span: 32 and 16 hexadecimal digits, neither of them all zero."""

    trace: str
    span: str

    @property
    def header(self) -> str:
        return f"00-{self.trace}-{self.span}-01"

    def part(self, *names: object) -> "SpanContext":
        """Return the span of this trace that these names always identify."""
        return SpanContext(self.trace, _digits(8, self.trace, *names))


def place_of(*names: object) -> SpanContext:
    """Return the first span of the trace that these names always identify."""
    trace = _digits(16, *names)
    return SpanContext(trace, _digits(8, trace))


def read(header: str | None) -> SpanContext | None:
    """Parse a header. None for a malformed one, because anybody may send it."""
    match = _HEADER.fullmatch(header or "")
    if match is None or not int(match[1], 16) or not int(match[2], 16):
        return None
    return SpanContext(match[1], match[2])


def _digits(size: int, *names: object) -> str:
    text = "\0".join(map(str, names))
    return blake2b(text.encode(), digest_size=size).hexdigest()
