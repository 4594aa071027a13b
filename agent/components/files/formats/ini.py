"""INI: sections with `key = value` lines, as systemd, git and many daemons read them.

Keys above the first section belong to section "". A comment is a line that begins with # or ;. A
line that is indented deeper than its key, or follows a backslash, continues the value. If a key
occurs more than once, the last one counts, and setting it leaves one. A line with only a key has
the value None.
"""

import re
from dataclasses import dataclass
from typing import Any

from agent.components.files.formats.lines import lines_of

_SECTION = re.compile(r"\s*\[([^\]]+)\]\s*([#;].*)?")
_PAIR = re.compile(r"(\s*)([^=\s\[#;][^=]*?)\s*=\s*(.*)", re.DOTALL)
_BARE = re.compile(r"(\s*)([A-Za-z0-9_.-]+)\s*")


@dataclass(frozen=True)
class _IniLine:
    """One statement: the lines from `first` to before `end`. key: None for a section header."""

    section: str
    key: str | None
    value: str | None
    first: int
    end: int


class Ini:
    def parse(self, text: str) -> dict[str, Any]:
        read: dict[str, Any] = {}
        for line in _lines(text):
            within = read.setdefault(line.section, {})
            if line.key is not None:
                within[line.key] = line.value
        return read

    def set(self, text: str, path: tuple[str, ...], value: Any) -> str:
        section, key = path
        made = key if value is None else f"{key} = {value}"
        lines, known = lines_of(text), _lines(text)
        ours = [line for line in known if (line.section, line.key) == (section, key)]
        if ours:
            indent = re.match(r"\s*", lines[ours[0].first])
            made = f"{indent[0] if indent else ''}{made}"
            for extra in reversed(ours[1:]):
                del lines[extra.first : extra.end]
            lines[ours[0].first : ours[0].end] = [made]
        elif within := [line for line in known if line.section == section]:
            lines.insert(within[-1].end, made)
        elif section == "":
            lines.insert(0, made)
        else:
            lines += [*([""] if lines and lines[-1].strip() else []), f"[{section}]", made]
        return "\n".join(lines) + "\n"

    def drop(self, text: str, path: tuple[str, ...]) -> str:
        lines = lines_of(text)
        for line in reversed(_lines(text)):
            if (line.section, line.key) == path:
                del lines[line.first : line.end]
        return "\n".join(lines) + "\n"


def _lines(text: str) -> list[_IniLine]:
    """Split the text into statements. Raises ValueError."""
    lines, section, entries, at = lines_of(text), "", list[_IniLine](), 0
    while at < len(lines):
        line, first = lines[at], at
        at += 1
        if not line.strip() or line.lstrip()[0] in "#;":
            continue
        if head := _SECTION.fullmatch(line):
            section = head[1]
            entries.append(_IniLine(section, None, None, first, at))
            continue
        depth = len(line) - len(line.lstrip())
        while at < len(lines) and _goes_on(lines[at - 1], lines[at], depth):
            at += 1
        whole = "\n".join(lines[first:at])
        if pair := _PAIR.fullmatch(whole):
            entries.append(_IniLine(section, pair[2], pair[3].rstrip(), first, at))
        elif bare := _BARE.fullmatch(whole):
            entries.append(_IniLine(section, bare[2], None, first, at))
        else:
            raise ValueError(f"line {first + 1} is neither a section nor key = value")
    return entries


def _goes_on(line: str, following: str, depth: int) -> bool:
    if line.endswith("\\"):
        return True
    deeper = len(following) - len(following.lstrip()) > depth
    return deeper and following.lstrip()[:1] not in ("", "#", ";")
