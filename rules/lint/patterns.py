"""Remarks on patterns that match always or never."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import re2

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.api.v1alpha1.leaves import AlertLeaf, ConditionLeaf, EventLeaf
from rules.lint.finding import Remark
from rules.lint.walk import places

STRANGE = ("", " ", "~", "A", "0", "\N{GREEK SMALL LETTER ZETA}")
"""Texts that no meaningful pattern matches all of."""
BACKWARDS = re.compile(r"(?<!\\)\$(?=\w)|(?<=\w)\^(?=\w)")
"""Something after the end, or before the beginning."""
BLANK = re.compile(r" (?![?*{])|(?<!\\)\\[stnr](?![?*{])")
PART = re.compile(r"\[[^\]]*\]|\([^()]*\)")
"""A character class, or a group without inner groups."""
NAMES = re.compile(r"[A-Za-z0-9]+(\|[A-Za-z0-9]+)*")
NO_REASON = re.compile(r"[^A-Za-z0-9_,:./-]")


def remarks(rule: NodeRemedier) -> Iterator[Remark]:
    for root, expression in (("spec.when", rule.spec.when), ("spec.unless", rule.spec.unless)):
        if expression is None:
            continue
        for place in places(expression, root):
            match place.leaf:
                case ConditionLeaf() as leaf:
                    yield from _pattern(f"{place.path}.reason", leaf.reason, of_a_reason=True)
                    yield from _pattern(f"{place.path}.message", leaf.message)
                case EventLeaf() as leaf:
                    yield from _pattern(f"{place.path}.message", leaf.message)
                    if leaf.reason is not None and NO_REASON.search(leaf.reason):
                        yield (
                            f"{place.path}.reason",
                            "reason-is-exact",
                            f"{leaf.reason!r} is compared exactly, and no reason has such"
                            " characters: write the reason itself, or a pattern in message",
                        )
                case AlertLeaf() as leaf:
                    yield from _pattern(f"{place.path}.name", leaf.name)
                case _:
                    pass


def _pattern(path: str, pattern: str | None, of_a_reason: bool = False) -> Iterator[Remark]:
    if pattern is None:
        return
    if _always(pattern):
        yield path, "pattern-always", f"{pattern!r} fits every text: leave it out or say more"
    elif _never(pattern, of_a_reason):
        yield path, "pattern-never", f"{pattern!r} fits no such text: rewrite it"
    elif of_a_reason and NAMES.fullmatch(pattern):
        anchored = f"^({pattern})$" if "|" in pattern else f"^{pattern}$"
        yield (
            path,
            "pattern-unanchored",
            f"{pattern!r} also fits within longer reasons: write {anchored}",
        )


@lru_cache(maxsize=4096)
def _always(pattern: str) -> bool:
    compiled = _compiled(pattern)
    return all(compiled.search(text) is not None for text in STRANGE)


@lru_cache(maxsize=4096)
def _never(pattern: str, of_a_reason: bool) -> bool:
    """Return whether the pattern can never match. Groups are ignored, because they may be
    optional.
    """
    if "(?" in pattern:
        return False
    plain, before = pattern, ""
    while plain != before:
        plain, before = PART.sub("x", plain), plain
    strange = (
        BACKWARDS.search(branch) or (of_a_reason and BLANK.search(branch))
        for branch in plain.split("|")
    )
    return all(strange)


def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    return re2.compile(pattern, options)
