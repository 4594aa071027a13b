"""Reading fields of what arrived: errors name the field, what it holds and what it should hold."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from remedy.hostdoctor.reported import ParseError

SHOWN = 60
"""Characters of a wrong value that an error shows."""
Fields = Mapping[str, Any]


def fields(value: Any, path: str) -> Fields:
    """Raises ParseError."""
    if not isinstance(value, Mapping):
        raise wrong(path, value, "a JSON object")
    return value


def items(value: Any, path: str) -> Sequence[Any]:
    """Raises ParseError."""
    if not isinstance(value, list | tuple):
        raise wrong(path, value, "a JSON list")
    return value


EARLIEST_YEAR = 1990


def text(of: Fields, name: str, path: str = "") -> str:
    """ "" where it is absent. Raises ParseError for what is no text."""
    value = of.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise wrong(under(path, name), value, "text")
    return value


def required(of: Fields, name: str, path: str = "") -> str:
    """Raises ParseError."""
    if value := text(of, name, path):
        return value
    raise ParseError(f"{under(path, name)}: is missing or empty; it must be text")


def texts(of: Fields, name: str, path: str = "") -> dict[str, str]:
    """A map of texts, empty where it is absent; numbers are taken as they are written."""
    value = of.get(name)
    if value is None:
        return {}
    found = fields(value, under(path, name))
    return {str(key): plain(each) for key, each in found.items() if each is not None}


def plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def time(of: Fields, name: str, path: str = "") -> datetime | None:
    """RFC 3339, in UTC; None where it is absent, empty, or so early that it stands for "none", as
    Go's year 1 and Unix' 1970 do.

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
