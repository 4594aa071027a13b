"""TOML. The standard library only reads it, so it is edited line by line.

Comments and the order of lines stay, except a comment behind a replaced value. An edit does not
find a key within an inline table or an array of tables, and then does nothing.
"""

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any

from agent.components.files.formats.lines import lines_of

_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_KEY = re.compile(rf"\s*({_PART}(?:[ \t]*\.[ \t]*{_PART})*)[ \t]*=")
_HEAD = re.compile(rf"\s*(\[\[?)[ \t]*({_PART}(?:[ \t]*\.[ \t]*{_PART})*)[ \t]*\]\]?")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class _TomlLine:
    """The lines from `first` to before `end`.

    path: keys from the root, of a key or of the table that a header opens
    table: the table that the line is in; for a header, the table itself
    array: whether the line is in an array of tables
    """

    path: tuple[str, ...]
    table: tuple[str, ...]
    head: bool
    array: bool
    first: int
    end: int


class Toml:
    def parse(self, text: str) -> dict[str, Any]:
        return tomllib.loads(text)

    def set(self, text: str, path: tuple[str, ...], value: Any) -> str:
        lines, known = lines_of(text), list(_lines(text))
        made, parent = f"{_quoted(path[-1])} = {_value(value)}", path[:-1]
        for line in known:
            if line.path == path and not line.head and not line.array:
                key = _KEY.match(lines[line.first])
                lines[line.first : line.end] = [f"{key[0] if key else made} {_value(value)}"]
                return "\n".join(lines) + "\n"
        within = [line for line in known if line.table == parent and not line.array]
        if within and (within[0].head or not parent):
            lines.insert(within[-1].end, made)
        elif not parent:
            lines.insert(0, made)
        else:
            head = ".".join(_quoted(part) for part in parent)
            lines += [*([""] if lines and lines[-1].strip() else []), f"[{head}]", made]
        return "\n".join(lines) + "\n"

    def drop(self, text: str, path: tuple[str, ...]) -> str:
        lines = lines_of(text)
        for line in reversed(list(_lines(text))):
            if line.path == path and not line.head and not line.array:
                del lines[line.first : line.end]
        return "\n".join(lines) + "\n"


def _lines(text: str) -> Iterator[_TomlLine]:
    """Split a valid text into lines."""
    lines, at = lines_of(text), 0
    table: tuple[str, ...] = ()
    arrays: set[tuple[str, ...]] = set()
    while at < len(lines):
        first = at
        at += 1
        if head := _HEAD.match(lines[first]):
            table = _parts(head[2])
            if head[1] == "[[":
                arrays.add(table)
            yield _TomlLine(table, table, True, _in_array(table, arrays), first, at)
        elif key := _KEY.match(lines[first]):
            while not _whole(lines[first:at]):
                at += 1
            path = (*table, *_parts(key[1]))
            yield _TomlLine(path, table, False, _in_array(table, arrays), first, at)


def _in_array(table: tuple[str, ...], arrays: set[tuple[str, ...]]) -> bool:
    return any(table[: len(array)] == array for array in arrays)


def _whole(lines: list[str]) -> bool:
    """Return whether a value that began in the first line is complete."""
    try:
        tomllib.loads("\n".join(lines))
    except tomllib.TOMLDecodeError:
        return False
    return True


def _parts(key: str) -> tuple[str, ...]:
    return tuple(next(iter(tomllib.loads(f"{part} = 0"))) for part in re.findall(_PART, key))


def _quoted(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value)
        case datetime() | date() | time():
            return value.isoformat()
        case list():
            return f"[{', '.join(_value(item) for item in value)}]"
        case dict():
            pairs = (f"{_quoted(key)} = {_value(item)}" for key, item in value.items())
            return f"{{ {', '.join(pairs)} }}" if value else "{}"
        case _:
            return repr(value)  # int, and float with its nan and inf as TOML writes them
