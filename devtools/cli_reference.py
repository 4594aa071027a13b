"""Writes docs/reference/cli.md: each command with its options, defaults and examples."""

import re
import sys
from collections.abc import Iterator
from dataclasses import Field
from inspect import cleandoc
from typing import Any, get_args

import typer
from typer import Context
from typer.cli import get_docs_for_click
from typer.core import TyperCommand, TyperGroup

from devtools.generators import ROOT, run
from kubenode.cli.all_settings import EverythingFlags
from kubenode.cli.app import app
from kubenode.cli.captain_settings import CaptainFlags
from kubenode.cli.defender_settings import DefenderFlags
from kubenode.cli.insight_settings import InsightFlags
from kubenode.cli.machine_settings import MachineFlags
from kubenode.cli.remedy_settings import RemedyFlags
from kubenode.runtime.settings_model import (
    ProcessSettings,
    declared,
    flag_of,
    key_of,
    spec_of,
    variable_of,
)

PAGE = ROOT / "docs/reference/cli.md"
HEAD = """# Command line

`kubenode COMMAND --help` prints the same. `make check` compares this page with the code.

"""
SETTINGS = """
## Settings of programs

`kubenode run all|remedy|defender|machine` read each setting from its flag, else from its
variable, else from the YAML file that `--config` or `KUBENODE_CONFIG` names, else its default
applies. The file is a map from keys to values. A key is the name of the flag in camelCase:

```yaml
logLevel: debug
healthPort: 9090
nodeKeys: kubenode.io/suspect,example.com/pool
```

A program refuses a file with a key that it does not have. Each error names the place, the key, the
value and what is allowed. Variables of other programs are ignored. A list is one text with commas,
as in the flag. The agent has a file of its own: [The node agent](../agent.md).

| key | flag | variable | values | default | program |
| --- | --- | --- | --- | --- | --- |
"""
MODELS: dict[str, type[ProcessSettings]] = {
    "all": EverythingFlags,
    "remedy": RemedyFlags,
    "defender": DefenderFlags,
    "machine": MachineFlags,
    "insight": InsightFlags,
    "captain": CaptainFlags,
}
TYPES = {bool: "true or false", int: "integer", float: "number", str: "text"}


def page() -> str:
    """Return the page."""
    command = typer.main.get_command(app)
    assert isinstance(command, TyperGroup)
    _summarize(command)
    text = get_docs_for_click(obj=command, ctx=Context(command), name="kubenode")
    text = re.sub(r"^```console\n\$ (.*)$", _usage, text, flags=re.MULTILINE)
    commands = text.replace("# `kubenode`", "## `kubenode`", 1).rstrip() + "\n"
    return HEAD + commands + SETTINGS + "".join(_setting_rows())


def _setting_rows() -> Iterator[str]:
    """Yield a row for each setting; two rows if programs have different defaults."""
    programs: dict[tuple[str, str], list[str]] = {}
    values = {}
    for program, model in MODELS.items():
        for name, each in declared(model).items():
            row = name, _default(each)
            programs.setdefault(row, []).append(program)
            values[row] = each
    for row, names in sorted(programs.items()):
        name, default = row
        flag = f"`{flag_of(name)}`" if spec_of(values[row]).panel else ""
        cells = f"`{key_of(name)}`", flag, f"`{variable_of(name)}`", _values(values[row]), default
        yield f"| {' | '.join(cells)} | {', '.join(names)} |\n"


def _default(each: Field[Any]) -> str:
    match each.default:
        case None | "":
            return ""
        case bool(value):
            return str(value).lower()
        case float(value):
            return f"`{value:g}`"
        case value:
            return f"`{value}`"


def _values(each: Field[Any]) -> str:
    """Return type, unit and bounds of a setting."""
    spec, bounds = spec_of(each), each.metadata
    types = [kind for kind in get_args(each.type) or (each.type,) if kind is not type(None)]
    text = TYPES[types[0]] if types[0] in TYPES else ", ".join(map(str, types))
    text += f" of {spec.unit}" if spec.unit else ""
    low = bounds.get("ge")
    if low is not None and "le" in bounds:
        return f"{text}, {low:g} to {bounds['le']:g}"
    return f"{text}, at least {low}" if low is not None else text


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
