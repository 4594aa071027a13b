"""What others tell of hosts, fed with any bytes: understood, or refused by name, and storable.

One target for each transport, from the body of a request to the HostEvent that would be stored.
`headers` are those of a CloudEvent. As in log_targets, hypothesis feeds them for a moment in CI
(tests/unit/hostdoctor/test_fuzz_targets.py), atheris for as long as it is told to.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial

from kubenode.api.v1alpha1.hostevent import HostEvent
from remedy.hostdoctor.decoder import cloud_events, json_of
from remedy.hostdoctor.nodes import NodeIndex
from remedy.hostdoctor.parsers import PARSERS
from remedy.hostdoctor.record import fitted, name_of
from remedy.hostdoctor.report import ParseError, ReportedEvents
from remedy.hostdoctor.step import step

NOW = datetime(2026, 1, 10, 10, 0, 30, tzinfo=UTC)
NODES = NodeIndex()
LONGEST_NAME = 253
MOST_CHARACTERS = 64 * 1024
"""Of one stored event, whatever was told: 32 attributes of 1 KiB and a message of 4."""


def told(transport: str, data: bytes) -> None:
    with suppress(ParseError):
        _stored(PARSERS[transport](json_of(data), NOW))


def text(transport: str, data: bytes) -> None:
    """Transports that are no JSON."""
    with suppress(ParseError):
        _stored(PARSERS[transport](data.decode(errors="replace"), NOW))


def headers(data: bytes) -> None:
    """Lines `name: value`, an empty one, the body; as HTTP/1.1 has them."""
    head, _, body = data.partition(b"\n\n")
    pairs = (line.partition(b":") for line in head.split(b"\n")[:80])
    given = {name.decode("latin-1").lower(): v.strip().decode("latin-1") for name, _, v in pairs}
    with suppress(ParseError):
        _stored(PARSERS["cloudevents"](cloud_events(given, body), NOW))


def _stored(found: ReportedEvents) -> None:
    for one in found.events:
        reported = fitted(one)
        name = name_of(reported)
        assert 0 < len(name) <= LONGEST_NAME, name
        where = NODES.resolve(reported.host)
        event = step(None, reported, where, NOW, scope=found.scope, complete=found.complete)
        body = event.to_dict()
        stored = HostEvent.model_validate(body)
        assert stored == event
        assert len(str(body)) < MOST_CHARACTERS
        again = step(stored, reported, where, NOW, scope=found.scope, complete=found.complete)
        assert again is stored, "told again it is no news"


TARGETS: dict[str, Callable[[bytes], None]] = {
    **{name: partial(told, name) for name in PARSERS},
    **{f"{name}_text": partial(text, name) for name in PARSERS if name.startswith("gcp")},
    "headers": headers,
}
