"""What `--help` says is what was written: brackets are markup to what prints it, if not escaped."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from rich.text import Text
from typer.testing import CliRunner

from kubenode.cli.app import app


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, (*path, name))


ALL = dict(commands(typer.main.get_command(app)))


def test_every_command_is_looked_at() -> None:
    assert ("rules", "lint") in ALL
    assert len(ALL) > 20


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_no_word_of_help_is_taken_for_markup(path: tuple[str, ...]) -> None:
    command = ALL[path]
    texts = [command.help, command.epilog, *(getattr(p, "help", None) for p in command.params)]
    for text in filter(None, texts):
        assert Text.from_markup(text).plain == text.replace("\\[", "[")


EXAMPLES = {
    path: example
    for path, command in ALL.items()
    for example in re.findall(r"Example: `(?:source <\()?(.+?)\)?`", command.help or "")
}
FIRST = (
    "status", "doctor", "uninstall", "pause", "resume", "approve", "deny", "job list", "job run",
    "explain node", "explain job", "rules lint", "rules test", "rules install", "completion",
)  # fmt: skip
"""Commands that a user types first."""


def test_commands_that_a_user_types_first_have_an_example() -> None:
    assert {tuple(words.split()) for words in FIRST} <= set(EXAMPLES)


@pytest.mark.parametrize("path", EXAMPLES, ids=" ".join)
def test_an_example_is_a_call_of_its_command(path: tuple[str, ...]) -> None:
    program, *words = shlex.split(EXAMPLES[path])
    assert program == "kubenode" and tuple(words[: len(path)]) == path
    ALL[path].make_context(path[-1], words[len(path) :])


def test_lint_says_how_a_finding_is_written() -> None:
    shown = CliRunner().invoke(app, ["rules", "lint", "--help"]).stdout
    assert "severity: field: problem, remedy [code]." in " ".join(shown.split())
