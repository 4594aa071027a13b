"""What arrives, by the transport it arrives over: a table of pure functions.

A parser is given the payload as it was decoded (a JSON value, or the text of a transport that is no
JSON) and the time it came at. It raises ParseError for what cannot be that transport's, and passes
over, in `Told.ignored`, what it understands and is of no concern.

An event whose `host` is None is about no machine. One whose `host` is an empty `Host()` is about
the machine that was asked: the server, which knows which agent speaks, fills it in.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from remedy.hostdoctor.parsers import alertmanager, cloudevents, grafana
from remedy.hostdoctor.reported import Told

Parser = Callable[[Any, datetime], Told]

PARSERS: Mapping[str, Parser] = {
    "alertmanager": alertmanager.parse,
    "grafana": grafana.parse,
    "cloudevents": cloudevents.parse,
}
"""Transport to parser. The names are those of the payloads' forms, not of who sends them."""

FROM_AGENTS: frozenset[str] = frozenset()
"""Transports that an agent may tell of for its own machine: the metadata services of clouds."""
