"""Reads and checks fields of other systems' objects. Pure."""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

Data = Mapping[str, Any]

GO = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h)")
SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}


class CannotImport(Exception):
    """The object cannot be imported. path: field of the object, "" for the object itself.

    The message says what to do.
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path or 'object'}: {message}")
        self.path = path


def read_duration(condition: Data, at: str) -> timedelta:
    """Read `duration` of NodeHealthCheck, `timeout` of v1beta1 or `timeoutSeconds` of v1beta2."""
    if (seconds := condition.get("timeoutSeconds")) is not None:
        return duration(f"{seconds}s", f"{at}.timeoutSeconds".removeprefix("spec."))
    name = "duration" if "duration" in condition else "timeout"
    if condition.get(name) is None:
        raise CannotImport(at, "says not for how long: write duration, timeout or timeoutSeconds")
    return duration(condition[name], f"{at}.{name}".removeprefix("spec."))


def duration(given: object, path: str) -> timedelta:
    """Parse a duration of Go's time.ParseDuration, in whole milliseconds, at least one unless
    zero.
    """
    text = str(given)
    parts = GO.findall(text)
    if not parts or "".join(n + unit for n, unit in parts) != text:
        if text == "0":
            return timedelta(0)
        raise CannotImport(f"spec.{path}", f"{text!r} is no duration: write 300s or 5m")
    seconds = sum(float(number) * SECONDS[unit] for number, unit in parts)
    return timedelta(milliseconds=max(round(seconds * 1000), 1 if seconds else 0))


def as_map(given: object, path: str) -> Data:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise CannotImport(path, "does not fit: write a map")
    return given


def as_list(given: object, path: str) -> Sequence[Any]:
    if not isinstance(given, list):
        raise CannotImport(path, "does not fit: write a list")
    return given
