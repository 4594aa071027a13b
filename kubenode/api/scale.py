"""Time scaling: the same rules and limits with every duration divided by one number.

The demo shows in one minute what takes an hour. Shares, counts and instants do not change. Neither
do the ten minutes in the name of `newFaultsPer10m`, which Kube Defender scales by its own clock.
"""

from datetime import timedelta
from typing import Any, TypeVar

from pydantic import BaseModel

from kubenode.api.base import Resource
from kubenode.api.duration import format_duration, parse_duration
from kubenode.api.v1alpha1.ladder import MigrateStep
from kubenode.api.v1alpha1.leaves import ProbeLeaf

R = TypeVar("R", bound=Resource)

SHORTEST = timedelta(milliseconds=1)
"""Minimum of a scaled duration that was not zero: `for: 30s` must not become `for: 0s`."""


def scaled(resource: R, speed: float) -> R:
    """Return a copy of `resource` with every duration of its spec divided by `speed`, above 0.

    Durations are rounded to the millisecond, the precision of the API.
    """
    if not speed > 0:
        raise ValueError(f"speed {speed} does not run time: give a number above 0")
    return _scaled(resource, speed)  # type: ignore[no-any-return]


def divided(duration: timedelta, speed: float) -> timedelta:
    if not duration:
        return duration
    return max(SHORTEST, SHORTEST * round(duration / speed / SHORTEST))


def _scaled(value: Any, speed: float) -> Any:
    match value:
        case timedelta():
            return divided(value, speed)
        case ProbeLeaf():
            return value
        case BaseModel():
            changes = {
                name: after
                for name in type(value).model_fields
                if (after := _scaled(before := getattr(value, name), speed)) is not before
            }
            if isinstance(value, MigrateStep) and value.grace_period != "pod":
                changes["grace_period"] = format_duration(
                    divided(parse_duration(value.grace_period), speed)
                )
            return value.model_copy(update=changes) if changes else value
        case list():
            made = [_scaled(item, speed) for item in value]
            return made if any(a is not b for a, b in zip(made, value, strict=True)) else value
        case _:
            return value
