"""Regular expressions of rules: RE2, which takes time linear in the text, whatever the pattern."""

from functools import lru_cache
from typing import Any

import re2


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    return re2.compile(pattern, options)


def found(pattern: str | None, text: str) -> bool:
    """Whether RE2 finds `pattern` in `text`; None asks nothing.

    Text that is no valid Unicode (a lone surrogate, from bytes that were no UTF-8) is searched
    with question marks in the place of what cannot be encoded.
    """
    return pattern is None or _compiled(pattern).search(encodable(text)) is not None


def whole(pattern: str, text: str) -> bool:
    """Whether `pattern` matches all of `text`."""
    return _compiled(pattern).fullmatch(encodable(text)) is not None


def encodable(text: str) -> str:
    """`text` itself, or without what UTF-8 cannot say."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text
