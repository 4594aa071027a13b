"""Validation of form input. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime

from pydantic import ValidationError

from defender.decision.pauses import PausedScope, read_scope
from kubenode.api.duration import parse_duration
from kubenode.api.v1alpha1.defenderpolicy import Pause

LENGTHS = {"30m": "30 minutes", "1h": "1 hour", "4h": "4 hours", "12h": "12 hours"}
RESUMED, INSTANT = "resumed", "instant"


def ends(fields: Mapping[str, str], now: datetime) -> datetime | None:
    """Return when the pause ends by itself, None if a person must resume. Raises ValueError."""
    length = fields.get("for", "")
    if length == RESUMED:
        return None
    if length == INSTANT:
        text = fields.get("until", "")
        try:
            at = datetime.fromisoformat(text).replace(tzinfo=UTC)
        except ValueError:
            raise ValueError(
                f"until: {text!r} is no instant: write it like 2026-11-22T04:30"
            ) from None
        if at <= now:
            raise ValueError(f"until: {text} UTC is over: choose a later instant")
        return at
    if length not in LENGTHS:
        raise ValueError(f"for: {length!r} is not among the choices: {', '.join(LENGTHS)}")
    return now + parse_duration(length)


def sentence(error: ValueError) -> str:
    """Return the message of a pydantic error. Our own errors have one already."""
    if isinstance(error, ValidationError):
        return "; ".join(str(each["msg"]) for each in error.errors())[:500]
    return str(error)


def wanted_pause(fields: Mapping[str, str], by: str, now: datetime) -> tuple[PausedScope, Pause]:
    """Return the pause of the form. Raises ValueError for invalid input."""
    scope = read_scope(fields.get("scope", "").strip())
    until = ends(fields, now)
    if not (why := fields.get("why", "").strip()):
        raise ValueError("say why: whoever finds the pause wants to know")
    sharp = fields.get("now") == "yes"
    return scope, scope.pause(until=until, by=by, why=why[:1024], now=sharp)
