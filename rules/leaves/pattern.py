"""Regular expressions of rules: RE2, whose time is linear in the text for every pattern."""

from functools import lru_cache
from typing import Any

import re2

from rules.text import encodable


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    return re2.compile(pattern, options)


def finds_pattern(pattern: str | None, text: str) -> bool:
    """Return whether RE2 finds `pattern` in `text`; True if the pattern is None."""
    return pattern is None or _compiled(pattern).search(encodable(text)) is not None


def whole(pattern: str, text: str) -> bool:
    """Return whether `pattern` matches all of `text`."""
    return _compiled(pattern).fullmatch(encodable(text)) is not None
