"""Natural sort order of names."""

import re
from functools import lru_cache

_DIGITS = re.compile(r"(\d+)")


@lru_cache(maxsize=2**15)
def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key that puts `r2` before `r10`."""
    parts = _DIGITS.split(text)
    return tuple((1, int(p), "") if p.isdecimal() else (0, 0, p) for p in parts)
