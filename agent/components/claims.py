"""Ownership of files among the components of one host. Pure.

A file has one owner. Where several components write only keys of a file, each key has one owner.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import NamedTuple

from agent.components.files.keys import list_key_paths
from agent.components.units import drop_in_files
from agent.host import Contraindicated
from kubenode.runtime.components.change import ComponentForm
from kubenode.runtime.components.render import RenderedFile
from kubenode.runtime.components.wire import Ownership

SHOWN = 5


class Claim(NamedTuple):
    """Claim of a component on a path. file: None for a drop-in of a unit, owned as a whole."""

    component: str
    file: RenderedFile | None


def conflicts(forms: Mapping[str, ComponentForm]) -> dict[str, str]:
    """Return by component what it shares with another one, and what to do; without the others.

    forms: by component, as each shall be on the host
    """
    by_path: dict[str, list[Claim]] = {}
    for name, form in sorted(forms.items()):
        for path, claim in _claims(name, form):
            by_path.setdefault(path, []).append(claim)
    overlaps: dict[str, list[str]] = {}
    for path, claims in by_path.items():
        for first, other in combinations(claims, 2):
            if what := _shared(path, first, other):
                overlaps.setdefault(first.component, []).append(
                    f"{what} is {other.component}'s too"
                )
                overlaps.setdefault(other.component, []).append(
                    f"{what} is {first.component}'s too"
                )
    return {name: _describe_overlaps(texts) for name, texts in overlaps.items()}


def still_had(name: str, form: ComponentForm, others: Mapping[str, ComponentForm]) -> str:
    """Describe which component still owns something that `name` shall own; "" if none does.

    others: by component, as each is on the host now
    """
    mine = dict(_claims(name, form))
    for other, its in sorted(others.items()):
        for path, claim in _claims(other, its):
            if other != name and path in mine and (what := _shared(path, mine[path], claim)):
                return f"waits for {other}, which still has {what}"
    return ""


def _claims(name: str, form: ComponentForm) -> Iterator[tuple[str, Claim]]:
    for file in form.files:
        yield file.path, Claim(name, file)
    for unit in form.units:
        for path in drop_in_files(unit):
            yield path, Claim(name, None)


def _shared(path: str, first: Claim, other: Claim) -> str:
    """Return the file or the key that both claim; "" if there is none."""
    if first.component == other.component:
        return ""
    mine, its = first.file, other.file
    if mine is None or its is None:
        return path
    if mine.ownership is not Ownership.KEYS or its.ownership is not Ownership.KEYS:
        return path
    try:
        key_paths = [list_key_paths(path, mine.content), list_key_paths(path, its.content)]
    except Contraindicated:
        return path  # the owner of each key is unknown
    for a in key_paths[0]:
        for b in key_paths[1]:
            if a[: len(b)] == b[: len(a)]:
                longer = a if len(a) > len(b) else b
                return f"key {'.'.join(longer)} of {path}"
    return ""


def _describe_overlaps(texts: list[str]) -> str:
    more = f" and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
    return f"{'; '.join(texts[:SHOWN])}{more}: a file or key has one owner, leave it to one of them"
