"""Where a span is in its trace, and how one process tells another of it. Pure.

A trace is one fault. Its id, and those of parts that outlive a process, derive from names that are
stored, so whoever goes on after a restart joins the same trace, and telling a part twice is telling
it once.
"""

import re
from dataclasses import dataclass
from hashlib import blake2b

TRACEPARENT = "traceparent"
"""HTTP header by which a call says which span it belongs to. Source: W3C Trace Context."""
ANNOTATION = "kubenode.io/traceparent"
"""On a job: the span of its fault, as in the header."""
_HEADER = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class SpanContext:
    """A span as others refer to it: 32 and 16 hexadecimal digits, neither of them all zero."""

    trace: str
    span: str

    @property
    def header(self) -> str:
        return f"00-{self.trace}-{self.span}-01"

    def part(self, *names: object) -> "SpanContext":
        """The span of this trace that these names always mean."""
        return SpanContext(self.trace, _digits(8, self.trace, *names))


def place_of(*names: object) -> SpanContext:
    """The first span of the trace that these names always mean."""
    trace = _digits(16, *names)
    return SpanContext(trace, _digits(8, trace))


def read(header: str | None) -> SpanContext | None:
    """None for what is no header of a trace: it may come from anybody."""
    match = _HEADER.fullmatch(header or "")
    if match is None or not int(match[1], 16) or not int(match[2], 16):
        return None
    return SpanContext(match[1], match[2])


def _digits(size: int, *names: object) -> str:
    text = "\0".join(map(str, names))
    return blake2b(text.encode(), digest_size=size).hexdigest()
