"""Writes docs/reference/cli.md: each command with its options, defaults and examples."""

import re
import sys
from inspect import cleandoc

import typer
from typer import Context
from typer.cli import get_docs_for_click
from typer.core import TyperCommand, TyperGroup

from devtools.generators import ROOT, run
from kubenode.cli.app import app

PAGE = ROOT / "docs/reference/cli.md"
HEAD = """# Command line

`kubenode COMMAND --help` prints the same. `make check` compares this page with the code.

"""


def page() -> str:
    """Return the page."""
    command = typer.main.get_command(app)
    assert isinstance(command, TyperGroup)
    _summarize(command)
    text = get_docs_for_click(obj=command, ctx=Context(command), name="kubenode")
    text = re.sub(r"^```console\n\$ (.*)$", _usage, text, flags=re.MULTILINE)
    return HEAD + text.replace("# `kubenode`", "## `kubenode`", 1).rstrip() + "\n"


def _usage(match: re.Match[str]) -> str:
    """Return a block that is no command to type, with arguments as in --help."""
    return "```text\n" + match[1].translate({ord("{"): None, ord("}"): None})


def _summarize(command: TyperCommand | TyperGroup) -> None:
    """Give each command the first paragraph of its help as its summary, which is not cut."""
    if command.help and not command.short_help:
        command.short_help = " ".join(cleandoc(command.help).partition("\n\n")[0].split())
    if isinstance(command, TyperGroup):
        for each in command.commands.values():
            assert isinstance(each, TyperCommand | TyperGroup)
            _summarize(each)


if __name__ == "__main__":
    sys.exit(run({PAGE: page()}, sys.argv[1:]))
