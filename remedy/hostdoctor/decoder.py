"""Decodes the bytes of a request to the input of a parser. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec
from cloudevents.core.bindings.http import HTTPMessage, from_binary
from cloudevents.core.exceptions import CloudEventValidationError
from cloudevents.core.formats.base import Format
from cloudevents.core.v1.event import CloudEvent

from remedy.hostdoctor.report import ParseError

STRUCTURED, BATCH = "application/cloudevents", "application/cloudevents-batch"
MOST_HEADERS = 64


def json_of(raw: bytes) -> Any:
    """Decode JSON. Raises ParseError, also for excessive nesting."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ParseError(f"body: is no JSON: {error}") from None
    except RecursionError:
        raise ParseError("body: is nested too deeply") from None


def cloud_events(headers: Mapping[str, str], raw: bytes) -> Any:
    """Return a CloudEvent in its JSON form, or a list of them, from any of the three content modes.

    Raises ParseError.
    """
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind.startswith(BATCH):
        events = json_of(raw)
        if not isinstance(events, list):
            raise ParseError("body: is no JSON list; a batch of CloudEvents must be one")
        return events
    if kind.startswith(STRUCTURED):
        return json_of(raw)
    if "ce-specversion" in headers:
        return _binary(headers, raw)
    hint = "application/cloudevents+json, or headers ce-... must carry the attributes"
    raise ParseError(f"Content-Type: is {kind[:60]!r}; it must be {hint}")


def _binary(headers: Mapping[str, str], raw: bytes) -> Any:
    named = {key: value for key, value in headers.items() if key.startswith("ce-")}
    if len(named) > MOST_HEADERS:
        raise ParseError(f"headers: {len(named)} begin with ce-; at most {MOST_HEADERS} may")
    try:
        event = from_binary(HTTPMessage(dict(named), raw), _Json(), CloudEvent)
    except CloudEventValidationError as error:
        name, problems = next(iter(error.errors.items()))
        raise ParseError(f"ce-{name}: {problems[0]}") from None
    except ValueError as error:
        raise ParseError(f"headers: {error}") from None
    # The library adds the current time if the sender gives none.
    attributes = {k: v for k, v in event.get_attributes().items() if k != "time"}
    if "ce-time" in headers:
        attributes["time"] = headers["ce-time"]
    return {**attributes, "data": event.get_data()}


class _Json(Format):
    """The library's reader of data, with our bounds."""

    def read_data(self, body: bytes, datacontenttype: str | None) -> Any:
        return json_of(body)

    def read(self, event_factory: Any, data: str | bytes) -> Any:
        raise NotImplementedError

    def write(self, event: Any) -> bytes:
        raise NotImplementedError

    def write_data(self, data: Any, datacontenttype: str | None) -> bytes:
        raise NotImplementedError

    def get_content_type(self) -> str:
        return "application/cloudevents+json"
