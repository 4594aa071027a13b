"""Reads fields of a payload: errors name the field, its value and the expected value."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from remedy.hostdoctor.report import ParseError

SHOWN = 60
"""Characters of a wrong value that an error shows."""
Fields = Mapping[str, Any]


def fields(value: Any, path: str) -> Fields:
    """Return `value` as an object. Raises ParseError."""
    if not isinstance(value, Mapping):
        raise wrong(path, value, "a JSON object")
    return value


def items(value: Any, path: str) -> Sequence[Any]:
    """Return `value` as a list. Raises ParseError."""
    if not isinstance(value, list | tuple):
        raise wrong(path, value, "a JSON list")
    return value


EARLIEST_YEAR = 1990


def text(of: Fields, name: str, path: str = "") -> str:
    """Return a text field, "" if absent. Raises ParseError for another type."""
    value = of.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise wrong(under(path, name), value, "text")
    return value


def required(of: Fields, name: str, path: str = "") -> str:
    """Return a text field. Raises ParseError if it is absent or empty."""
    if value := text(of, name, path):
        return value
    raise ParseError(f"{under(path, name)}: is missing or empty; it must be text")


def texts(of: Fields, name: str, path: str = "") -> dict[str, str]:
    """Return a map of texts, empty if absent; other values are converted to text. Raises ParseError
    if it is no object.
    """
    value = of.get(name)
    if value is None:
        return {}
    entries = fields(value, under(path, name))
    return {str(key): plain(each) for key, each in entries.items() if each is not None}


def plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def time(of: Fields, name: str, path: str = "") -> datetime | None:
    """Parse RFC 3339 to UTC; return None if it is absent, empty, or so early that it means "none",
    as Go's year 1 and Unix' 1970 do.

    Raises ParseError.
    """
    value = text(of, name, path)
    if not value:
        return None
    try:
        at = datetime.fromisoformat(value)
        at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        return at.astimezone(UTC) if at.year >= EARLIEST_YEAR else None
    except (ValueError, OverflowError):
        hint = "a time as in 2026-01-10T08:00:00Z"
        raise wrong(under(path, name), value, hint) from None


def under(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def wrong(path: str, value: Any, wanted: str) -> ParseError:
    shown = repr(value)
    cut = shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}..."
    return ParseError(f"{path or 'body'}: is {cut}; it must be {wanted}")
