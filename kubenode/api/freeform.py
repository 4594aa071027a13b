"""JSON schemas of values without a fixed type, bounded in depth and size.

A structural schema allows several types for a value only as `x-kubernetes-preserve-unknown-fields`,
which accepts anything. Limits apply to values of their own type: `maxItems: 0` denies arrays and
does not affect numbers. Combined limits bound such a value, so that no reader gets a deeply nested
one. The minimum of 1 denies the empty array and the empty object.
"""

from typing import Any

UNKNOWN = "x-kubernetes-preserve-unknown-fields"


def scalar(max_length: int) -> dict[str, Any]:
    """Return the schema of a boolean, a number, or a text of at most `max_length` characters."""
    arrays = {"minItems": 1, "maxItems": 0}
    objects = {"minProperties": 1, "maxProperties": 0}
    return {UNKNOWN: True, "maxLength": max_length} | arrays | objects


def bounded_value(depth: int, members: int, max_length: int) -> dict[str, Any]:
    """Return the schema of a scalar, or of objects and arrays of at most `members` entries in at
    most `depth` levels."""
    if depth == 0:
        return scalar(max_length)
    below = bounded_value(depth - 1, members, max_length)
    return {
        UNKNOWN: True,
        "maxLength": max_length,
        "maxItems": members,
        "maxProperties": members,
        "items": below,
        "additionalProperties": below,
    }
