"""Durations as short text."""

from datetime import timedelta


def length(value: timedelta) -> str:
    """Return a duration in its two largest units: `1.5s`, `42s`, `3m10s`, `2h5m`, `3d4h`.

    A negative duration is shown as `0s`.
    """
    seconds = max(value.total_seconds(), 0.0)
    if seconds < 10 and not seconds.is_integer():
        return f"{seconds:.1f}s"
    remaining = round(seconds)
    parts: list[str] = []
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")):
        number, remaining = divmod(remaining, size)
        if parts:
            parts += [f"{number}{unit}"] if number else []
            break
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts) or "0s"
