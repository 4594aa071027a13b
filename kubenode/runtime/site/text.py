"""Times and durations as text for people. Pure."""

from datetime import UTC, datetime


def iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def instant(at: datetime) -> str:
    """Format a time for people. Scripts show how long ago it is."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def seconds(count: float) -> str:
    """Format a duration for people: `4.2 s`, `3 min`, `2 h 5 min`."""
    if count < 10:
        return f"{count:.1f} s"
    if count < 90:
        return f"{count:.0f} s"
    minutes = round(count / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
