"""Regular expressions of rules: RE2, which takes time linear in the text, whatever the pattern."""

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
    """Whether RE2 finds `pattern` in `text`; None asks nothing."""
    return pattern is None or _compiled(pattern).search(encodable(text)) is not None


def whole(pattern: str, text: str) -> bool:
    """Whether `pattern` matches all of `text`."""
    return _compiled(pattern).fullmatch(encodable(text)) is not None
