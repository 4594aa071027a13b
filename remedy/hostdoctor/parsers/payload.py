"""Reads a cloud's payload by its field names, without trust in its form. Pure.

An invalid field is a ParseError that names the field, its value and the expected value.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from kubenode.api.v1alpha1.hostevent import HostEventClass, HostEventPhase, HostEventSource
from remedy.hostdoctor.report import ParseError, Reported, ReportedEvents, ReportedHost

LONGEST_ID = 512
"""Longest externalID of a HostEvent, in characters."""
LONGEST_NOTE = 1024
"""Longest attribute of a HostEvent, in characters."""
LONGEST_MESSAGE = 4096
MOST_ITEMS = 10_000
"""Most events, instances or resources in one list."""
SHOWN, LONGEST_PATH = 80, 200
"""Characters of a wrong value, and of its path, in an error."""
YEARS = range(1990, 2200)


UNKNOWN_STATUS = "unknownStatus"
"""Attribute of the extra event that is reported for an unknown status; the original event stays as
it is.
"""
_MEANT = {
    HostEventPhase.SCHEDULED: "scheduled planned pending upcoming announced postponed rescheduled"
    " deferred delayed queued notstarted waiting",
    HostEventPhase.AWAITING_APPROVAL: "inquiring awaitingapproval pendingapproval"
    " waitingforapproval",
    HostEventPhase.ACTIVE: "active started starting inprogress executing ongoing running underway",
    HostEventPhase.COMPLETED: "completed complete executed finished done closed resolved succeeded"
    " success failed ended mitigated over",
    HostEventPhase.CANCELLED: "canceled cancelled avoided avoidated skipped rejected withdrawn"
    " aborted revoked dismissed",
}
_PHASES = {word: phase for phase, spellings in _MEANT.items() for word in spellings.split()}


def meant(status: str) -> HostEventPhase | None:
    """Return the phase that a status means, in any cloud's spelling; None if unknown."""
    return _PHASES.get("".join(letter for letter in status.lower() if letter.isalpha()))


def decoded(payload: object) -> object:
    """Return the payload itself, or its decoded JSON."""
    if not isinstance(payload, bytes | bytearray | str):
        return payload
    try:
        return json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"the body is no JSON ({type(error).__name__}): send JSON") from None


@dataclass(frozen=True, slots=True)
class Fields:
    """An object of the payload; `at` is its path, for errors."""

    values: Mapping[str, object]
    at: str = ""

    def path(self, name: str) -> str:
        return f"{self.at}.{name}" if self.at else name

    def has(self, name: str) -> bool:
        return self.values.get(name) not in (None, "")

    def text(self, name: str, *, most: int = LONGEST_NOTE) -> str:
        """Return the text, "" if absent; cut at `most` characters."""
        value = self.values.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise wrong(self.path(name), value, "text")
        return clean(value, most)

    def needed(self, name: str) -> str:
        """Return the text. Raises ParseError if it is absent or empty."""
        text = self.text(name)
        if not text:
            raise wrong(self.path(name), self.values.get(name), "text that is not empty")
        return text

    def identity(self, name: str) -> str:
        """Return an ID of an event or machine, which is never cut. Raises ParseError if it is empty
        or too long.
        """
        text = self.text(name, most=LONGEST_ID + 1)
        if not 0 < len(text) <= LONGEST_ID:
            wanted = f"an ID of 1 to {LONGEST_ID} characters"
            raise wrong(self.path(name), self.values.get(name), wanted)
        return text

    def instant(self, name: str) -> datetime | None:
        """Return a time in UTC; None if it is absent, empty, or of a year that means "none".

        Raises ParseError if it is no time.
        """
        value = self.values.get(name)
        if value in (None, ""):
            return None
        at = value if isinstance(value, datetime) else _date(value)
        return None if at is not None and _stands_for_none(at) else instant(self.path(name), value)

    def number(self, name: str) -> int | None:
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise wrong(self.path(name), value, "a whole number")
        return value

    def inside(self, name: str) -> "Fields":
        """Return the object under `name`; an empty one if it is absent."""
        value = self.values.get(name)
        return Fields({}, self.path(name)) if value is None else fields(value, self.path(name))

    def items(self, name: str) -> Sequence[object]:
        value = self.values.get(name)
        return () if value is None else items(value, self.path(name))

    def each(self, name: str) -> Iterator["Fields"]:
        for number, value in enumerate(self.items(name)):
            yield fields(value, f"{self.path(name)}[{number}]")

    def notes(self, **names: str) -> dict[str, str]:
        """Return attributes from the fields that exist: attribute = field."""
        values = {note: self.values.get(name) for note, name in names.items()}
        return {
            note: clean(value, LONGEST_NOTE)
            for note, value in values.items()
            if isinstance(value, str) and value.strip()
        }


def fields(value: object, at: str = "") -> Fields:
    if not isinstance(value, Mapping):
        raise wrong(at or "the body", value, "an object")
    return Fields(value, at)


def items(value: object, at: str) -> Sequence[object]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise wrong(at, value, "a list")
    if len(value) > MOST_ITEMS:
        raise ParseError(f"{at} has {len(value)} items: send at most {MOST_ITEMS}")
    return value


def instant(at: str, value: object) -> datetime:
    """Parse RFC 3339, RFC 1123, `2 Jan 2006 15:04:05 GMT` or an SDK's datetime; a time zone is
    required.
    """
    moment = value if isinstance(value, datetime) else _date(value)
    if moment is None or moment.tzinfo is None:
        raise wrong(at, value, "a date with its zone, as 2026-01-10T10:15:00Z")
    try:
        moment = moment.astimezone(UTC)
    except (OverflowError, ValueError):
        raise wrong(at, value, "a date of our days") from None
    if moment.year not in YEARS:
        raise wrong(at, value, "a date of our days")
    return moment


def _stands_for_none(at: datetime) -> bool:
    """Report whether it is a placeholder: year 1 of Go, 1970 of Unix, or the last possible year."""
    return at.year not in YEARS


def _date(value: object) -> datetime | None:
    if not isinstance(value, str) or len(value) > 64:
        return None
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            return read(value.strip())
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
    return None


def wrong(at: str, value: object, wanted: str) -> ParseError:
    shown = "nothing" if value is None else clean(repr(value)[: 2 * SHOWN], SHOWN)
    return ParseError(f"{clean(at, LONGEST_PATH)} is {shown}: send {wanted}")


def clean(text: str, most: int) -> str:
    """Remove what UTF-8 cannot encode; cut at `most` characters, with an ellipsis."""
    text = text.encode("utf-8", "replace").decode("utf-8").strip()
    return text if len(text) <= most else f"{text[: most - 1]}…"


@dataclass(frozen=True, slots=True)
class Understood:
    """Result of a list: an invalid item does not hide the valid ones, and makes the list
    incomplete.
    """

    events: tuple[Reported, ...]
    ignored: tuple[str, ...]
    whole: bool


def understood(
    entries: Sequence[object], at: str, parse: Callable[[Fields], Sequence[Reported] | str]
) -> Understood:
    """Parse each item. `parse` returns an item's events, or a sentence that says why it is not
    relevant.

    Raises the first ParseError if no event could be parsed.
    """
    events: list[Reported] = []
    ignored: list[str] = []
    errors: list[ParseError] = []
    for number, item in enumerate(entries):
        try:
            value = item.values if isinstance(item, Fields) else item
            where = item.at if isinstance(item, Fields) else f"{at}[{number}]"
            read = parse(fields(value, where))
        except ParseError as error:
            errors.append(error)
            continue
        if isinstance(read, str):
            ignored.append(read)
        else:
            events += read
    if errors and not events:
        raise errors[0]
    ignored += (str(error) for error in errors)
    known = all(UNKNOWN_STATUS not in event.attributes for event in events)
    return Understood(tuple(events), tuple(ignored), whole=not errors and known)


def other(
    source: HostEventSource,
    identity: str,
    host: ReportedHost,
    what: str,
    *,
    phase: HostEventPhase | None = None,
    not_before: datetime | None = None,
    message: str = "",
    silent: bool = False,
    advisory: bool = False,
) -> Reported:
    """Return an event of an unknown kind: people are notified, and no rule acts."""
    return Reported(
        source,
        identity,
        HostEventClass.OTHER,
        host,
        phase=phase,
        not_before=not_before,
        attributes={"kind": clean(what, LONGEST_NOTE)},
        message=message or clean(f"an event of unknown kind: {what}", LONGEST_MESSAGE),
        silent=silent,
        advisory=advisory,
    )


def of_unknown_status(
    source: HostEventSource, identity: str, host: ReportedHost, what: str, status: str
) -> Reported:
    """Return an extra event about an unknown status, for people; the phase of the original event
    stays.
    """
    status = clean(status, SHOWN)
    return Reported(
        source,
        clean(f"{identity[: LONGEST_ID - 100]}/status/{status}", LONGEST_ID),
        HostEventClass.OTHER,
        host,
        phase=HostEventPhase.ACTIVE,
        attributes={UNKNOWN_STATUS: status, "kind": clean(what, LONGEST_NOTE)},
        message=clean(f"{what} has the unknown status {status}", LONGEST_MESSAGE),
        silent=True,
        advisory=True,
    )


def listed(
    transport: str,
    payload: object,
    key: str,
    what: str,
    parse: Callable[[Fields], Sequence[Reported] | str],
    more: str = "",
) -> ReportedEvents:
    """Parse a list under `key`; it is complete if every item was understood and no page follows.

    what: name of the list for the error if it is missing: "the list of events"
    more: field with the next page; "" if there are no pages

    Raises ParseError.
    """
    body = fields(decoded(payload))
    if key not in body.values:
        raise wrong(key, None, f"{what}, empty if there are none")
    read = understood(body.items(key), key, parse)
    complete = read.whole and not (more and body.has(more))
    return ReportedEvents(read.events, transport, complete=complete, ignored=read.ignored)
