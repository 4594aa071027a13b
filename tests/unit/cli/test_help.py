"""What `--help` says is what was written: brackets are markup to what prints it, if not escaped."""

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


def test_lint_says_how_a_finding_is_written() -> None:
    shown = CliRunner().invoke(app, ["rules", "lint", "--help"]).stdout
    assert "severity: field: problem, remedy [code]." in " ".join(shown.split())
