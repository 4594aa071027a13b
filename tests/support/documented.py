"""The commands that the documentation shows: typed in blocks, and named in sentences."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
GENERATED = ROOT / "docs/reference/cli.md"
"""Written from the commands themselves; its usage lines cannot be typed."""
PROGRAMS = ("kubenode", "make", "kubectl", "helm")
BLOCK = re.compile(r"^```[a-z]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`((?:\.venv/bin/)?(?:kubenode|make) [^`\n]+)`")
COMMENT = re.compile(r"(?:^|\s)#\s.*$")
PIPE = re.compile(r"\s(?:\|\|?|&&|;|>>?)\s|\s2>\s?\S+")


@dataclass(frozen=True, slots=True)
class Command:
    page: str
    """Path in the repository."""
    words: tuple[str, ...]
    typed: bool
    """Stands in a block, so that it can be typed as it is but for its NAMES."""

    def __str__(self) -> str:
        return f"{self.page}: {shlex.join(self.words)}"


@cache
def commands() -> tuple[Command, ...]:
    """Each once for each page; the runbooks of rules share most of theirs."""
    pages = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    return tuple(dict.fromkeys(found for page in pages if page != GENERATED for found in _of(page)))


def of(program: str) -> list[Command]:
    """The commands of one program."""
    return [command for command in commands() if command.words[0] == program]


def _of(page: Path) -> Iterator[Command]:
    text, name = page.read_text(), page.relative_to(ROOT).as_posix()
    for block in BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            for words in _lines(line):
                yield Command(name, words, typed=True)
    for span in SPAN.findall(BLOCK.sub("", text)):
        for text in _alternatives(span):
            for words in _lines(text):
                yield Command(name, words, typed=False)


def _lines(line: str) -> Iterator[tuple[str, ...]]:
    """The programs of a line; what is not ours, as `ssh`, is left out with its words."""
    for part in PIPE.split(COMMENT.sub("", line)):
        try:
            words = shlex.split(part)
        except ValueError:  # a quote that goes on in the next line
            words = part.split()
        words = words[1:] if words[:1] == ["$"] else words
        if words and words[0].removeprefix(".venv/bin/") in PROGRAMS:
            yield (words[0].removeprefix(".venv/bin/"), *words[1:])


def _alternatives(span: str) -> Iterator[str]:
    """`job run|next` is two commands."""
    before, found, after = "", None, ""
    for word in span.split(" "):
        if found is None and re.fullmatch(r"[a-z]+(\|[a-z]+)+", word):
            found = word.split("|")
        elif found is None:
            before += word + " "
        else:
            after += " " + word
    yield from (before + one + after for one in found or [""])
