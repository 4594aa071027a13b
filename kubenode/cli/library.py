"""Loads rules from files: the library, `rules/library/<pack>/<rule>.yaml`, and files of users."""

import difflib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from pydantic import ValidationError

import rules
from kubenode.api.problems import problems
from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.cli.documents import UnreadableDocument, YamlDocument, files, read
from kubenode.cli.exits import Exit, Refusal
from kubenode.runtime.collector import paused_collector

FOLDER = Path(rules.__file__).parent / "library"


def library() -> list[NodeRemedier]:
    """Return every rule of the library, in the order of packs and file names."""
    return [rule for pack in packs().values() for rule in pack]


def packs() -> dict[str, list[NodeRemedier]]:
    """Return the library by pack, the name of a folder; "" has the rules outside of any pack."""
    by_pack: dict[str, list[NodeRemedier]] = {}
    for pack, rule in _shipped():
        by_pack.setdefault(pack, []).append(rule)
    return by_pack


@cache
def _shipped() -> tuple[tuple[str, NodeRemedier], ...]:
    """Return each rule with its pack, in the order of packs and file names.

    The files are read once.
    """
    entries = []
    with paused_collector():
        for path in files([FOLDER]):
            pack = path.parent.relative_to(FOLDER).as_posix()
            named = "" if pack == "." else pack
            entries += [(named, NodeRemedier.from_user(document.data)) for document in read(path)]
    return tuple(sorted(entries, key=lambda entry: entry[0]))


def explain_unknown(what: str, name: str, known: Mapping[str, object]) -> str:
    """Explain that a library does not have a name, with the nearest one or all that it has."""
    near = difflib.get_close_matches(name, list(known), n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(filter(None, known))}"
    return f"{what} {name!r} is not in the library: {hint}"


def rules_from(paths: Sequence[Path]) -> list[NodeRemedier]:
    """Return the rules of these files and folders; without any, the library. Skips other kinds.

    Raises Refusal with place and field of the first rule that cannot be read.
    """
    if not paths:
        return library()
    try:
        documents = [document for path in files(paths) for document in read(path)]
    except UnreadableDocument as error:
        raise Refusal(str(error), Exit.USAGE) from error
    by_name: dict[str, tuple[YamlDocument, NodeRemedier]] = {}
    for document in documents:
        if isinstance(document.data, Mapping) and document.data.get("kind") == "NodeRemedier":
            rule = _valid(document)
            if rule.metadata.name in by_name:
                first = by_name[rule.metadata.name][0].where(("metadata", "name"))
                place = document.where(("metadata", "name"))
                raise Refusal(
                    f"{place}: metadata.name: {rule.metadata.name!r} is taken by {first}: choose"
                    " another"
                )
            by_name[rule.metadata.name] = document, rule
    if not by_name:
        named = ", ".join(map(str, paths))
        raise Refusal(f"no NodeRemedier in {named}; name other files or folders", Exit.USAGE)
    return [rule for _, rule in by_name.values()]


def _valid(document: YamlDocument) -> NodeRemedier:
    try:
        rule = NodeRemedier.from_user(document.data)
    except ValidationError as error:
        first, *_ = problems(error, NodeRemedier, document.where)
        raise Refusal(first) from error
    if not rule.metadata.name:
        place = document.where(("metadata",))
        raise Refusal(f"{place}: metadata.name: missing: give the rule a name")
    return rule
