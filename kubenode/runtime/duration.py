"""Durations as the API writes them, for programs without pydantic: Go style, such as `90s`."""

import re

_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """Seconds of a positive duration. Raises ValueError with the text for anything else."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no duration: write it like 90s or 1h30m")
    return float(sum(float(number) * _SECONDS[unit] for number, unit in parts))
