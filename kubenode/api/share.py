"""Number or percentage of nodes: `3` or `"5%"`."""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

PATTERN = r"^(100|[0-9]{1,2})%$"


def _read(value: Any) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str) and re.fullmatch(PATTERN, value):
        return value
    raise ValueError(
        f"{value!r} is no share: write a whole number of nodes like 3, or a text like '5%'"
    )


Share = Annotated[
    int | str,
    BeforeValidator(_read),
    WithJsonSchema({"x-kubernetes-int-or-string": True, "pattern": PATTERN, "minimum": 0}),
]


def is_ratio(share: int | str) -> bool:
    return isinstance(share, str)


def share_of(share: int | str, total: int) -> int:
    """Return the number of nodes, rounded down. A number is unchanged, even above `total`."""
    if isinstance(share, int):
        return share
    return int(share[:-1]) * total // 100


def ratio_of(share: int | str, total: int) -> float:
    """Return `share` as a fraction of `total`, between 0 and 1. For no nodes, a number is 1."""
    if isinstance(share, str):
        return int(share[:-1]) / 100
    return min(1.0, share / total) if total else 1.0
