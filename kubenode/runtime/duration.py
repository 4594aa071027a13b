"""Durations in the API's form, as `90s` in Go, for programs without pydantic."""

import re

_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """Parse a positive duration into seconds. Raises ValueError for anything else."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no duration: write it like 90s or 1h30m")
    return float(sum(float(number) * _SECONDS[unit] for number, unit in parts))
