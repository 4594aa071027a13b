"""YAML files of users, with the place of every field: `file:line:col`.

A file is first read as plain data. It is read again with line numbers only when a place is needed,
or when it cannot be read. Lines and columns count from 1, as in editors.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from kubenode.cli import plain_yaml

SUFFIXES = (".yaml", ".yml")
STDIN = Path("-")
"""The name under which a command reads standard input."""
TESTS = (".test.yaml", ".test.yml", ".ruletest")
"""Suffixes of rule tests, which lie beside the rules and are not read as rules. kubectl, Argo CD
and Flux do not read files with the last one."""

MOST_VALUES = 300_000
"""Values in one document with its aliases expanded: a hundred times the largest rule."""

Field = tuple[str | int, ...]


class UnreadableDocument(Exception):
    """A file that does not exist or is not valid YAML. The message is `place: what, remedy`."""


class Marks:
    """The documents of a text as nodes with line numbers, parsed on first use."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def all(self) -> list[Any]:
        return list(YAML(typ="rt", pure=True).load_all(self._text))


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """One YAML document.

    data: plain data.
    marks: the documents of the same file with line numbers.
    number: the index of this document in `marks`, from 0.
    """

    path: Path
    data: Any
    marks: Marks
    number: int

    def where(self, field: Field) -> str:
        """Return the place of `field`.

        For a missing field it is the place of the part that should have it.
        """
        line, column = self.place(field)
        return f"{self.path}:{line}:{column}"

    def place(self, field: Field) -> tuple[int, int]:
        """Return line and column of the place that `where` returns."""
        line, column = _place(self.marks.all[self.number], field)
        return line + 1, column + 1


def is_test(path: Path) -> bool:
    return path.name.endswith(TESTS)


def files(given: Sequence[Path]) -> list[Path]:
    """List the given files, and the YAML files in the given folders except tests of rules.

    Raises UnreadableDocument.
    """
    paths: list[Path] = []
    for path in given:
        if path.is_dir():
            yaml = (p for p in path.rglob("*") if p.suffix in SUFFIXES)
            inside = sorted(p for p in yaml if not is_test(p))
            if not inside:
                raise UnreadableDocument(
                    f"{path}: no YAML file in this folder; name files or another one"
                )
            paths += inside
        elif path == STDIN or path.is_file():
            paths.append(path)
        else:
            raise UnreadableDocument(f"{path}: no such file; check the name")
    return paths


def read(path: Path) -> Iterator[YamlDocument]:
    """Yield every document of the file that is not empty. Raises UnreadableDocument."""
    try:
        text = sys.stdin.read() if path == STDIN else path.read_text(encoding="utf-8")
        plain = _plain(text)
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableDocument(
            f"{path}: cannot be read: {error}; it must be a text file in UTF-8"
        ) from error
    except MarkedYAMLError as error:
        raise UnreadableDocument(_broken(path, error)) from error
    except YAMLError as error:
        raise UnreadableDocument(f"{path}: no YAML: {error}") from error
    except (plain_yaml.TooDeep, RecursionError) as error:
        raise UnreadableDocument(f"{path}: nests too deep: rewrite it flatter") from error
    marks = Marks(text)
    for number, data in enumerate(plain):
        if data is None:
            continue
        if _too_large(data):
            why = "too large once its aliases are written out: divide it, or use fewer aliases"
            raise UnreadableDocument(f"{path}: {why}")
        yield YamlDocument(path, data, marks, number)


def _too_large(data: Any) -> bool:
    """Return whether the data with its aliases expanded has more than MOST_VALUES values.

    An alias may stand for a list of aliases, and even contain itself.
    """
    pending, visited = [data], 0
    while pending:
        visited += 1
        if visited > MOST_VALUES:
            return True
        value = pending.pop()
        if isinstance(value, Mapping):
            pending += value.values()
        elif isinstance(value, list):
            pending += value
    return False


def _plain(text: str) -> list[Any]:
    """Return the data of every document, None for an empty one. Raises YAMLError of ruamel.yaml."""
    try:
        return plain_yaml.load_all(text)
    except plain_yaml.Otherwise:
        return list(YAML(typ="safe", pure=True).load_all(text))


def _broken(path: Path, error: MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark is not None else str(path)
    what = " ".join(str(error.problem or error.context or "no YAML").split())
    return f"{place}: not valid YAML: {what}; check the indentation and quotes around here"


def _place(node: Any, field: Field) -> tuple[int, int]:
    """Line and column from 0 of the deepest part of `field` that exists."""
    marks = getattr(node, "lc", None)
    at = (marks.line, marks.col) if marks is not None and marks.line is not None else (0, 0)
    for key in field:
        if isinstance(node, Mapping) and key in node:
            at = node.lc.key(key)  # type: ignore[attr-defined]
        elif isinstance(node, list) and isinstance(key, int) and key < len(node):
            at = node.lc.item(key)  # type: ignore[attr-defined]
        else:
            break
        node = node[key]
    return int(at[0]), int(at[1])
