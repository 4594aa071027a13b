"""Derives the flags of a program from the model of its settings, and reads its settings.

Precedence: a flag, then its KUBENODE_* variable, then the file of `--config`, then the default.
Typer shows variables and bounds in `--help`; kubenode.runtime.settings reads and validates values,
so that all errors are reported together.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.core import TyperOption

from kubenode.cli.command_group import KubenodeCommand, inherit
from kubenode.cli.settings import PROCESS
from kubenode.runtime.settings_model import (
    CLUSTER,
    ProcessSettings,
    declared,
    flag_of,
    spec_of,
    variable_of,
)

if TYPE_CHECKING:
    from kubenode.runtime.settings import SettingsFile

S = TypeVar("S", bound=ProcessSettings)
Program = Callable[[Mapping[str, Any]], None]

CONFIG = "config"
TYPES = (bool, int, float)
ConfigFlag = Annotated[
    str | None,
    typer.Option("--config", envvar=variable_of(CONFIG), metavar="FILE", rich_help_panel=PROCESS,
                 help="YAML file with settings: the names of flags in camelCase, such as logLevel."
                 " Flags and variables override it."),
]  # fmt: skip


def with_flags(model: type[ProcessSettings]) -> Callable[[Program], Callable[..., None]]:
    """Turn a function of the given flags into a command with a flag for each setting of `model`."""

    def decorate(program: Program) -> Callable[..., None]:
        def command(ctx: typer.Context, **_: Any) -> None:
            program(ctx.params)

        command.__doc__ = program.__doc__
        command.__signature__ = inspect.Signature(list(_parameters(model)))  # type: ignore[attr-defined]  # read by inspect
        return command

    return decorate


class SettingOption(TyperOption):
    """A flag that shows its variable and bounds in `--help` and passes on its text.

    kubenode.runtime.settings reads the variable and validates the value.
    """

    def resolve_envvar_value(self, ctx: object) -> None:
        return None

    def process_value(self, ctx: Any, value: Any) -> Any:
        return value if self.callback is None else self.callback(ctx, self, value)


class ProgramCommand(KubenodeCommand):
    """A command whose flags are settings."""

    def __init__(self, name: str | None, **settings: Any) -> None:
        super().__init__(name, **settings)
        for option in self.params:
            if isinstance(option, TyperOption) and option.name != CONFIG:
                option.__class__ = SettingOption  # typer cannot be given a class of options


def _parameters(model: type[ProcessSettings]) -> Iterator[inspect.Parameter]:
    yield _keyword("ctx", typer.Context, inspect.Parameter.empty)
    for each in declared(model).values():
        if spec_of(each).panel:
            yield _keyword(each.name, _annotation(each), None)
    yield _keyword(CONFIG, ConfigFlag, None)


def _keyword(name: str, annotation: object, default: object) -> inspect.Parameter:
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, default=default, annotation=annotation)


def _annotation(field: Field[Any]) -> object:
    """Return the type of the flag of a setting, with its option."""
    spec, bounds = spec_of(field), field.metadata
    ranged = "ge" in bounds and "le" in bounds
    kind = _flag_type(field)
    option = typer.Option(
        *(spec.flags or _names(field.name, kind)),
        envvar=variable_of(field.name),
        metavar=spec.metavar,
        help=bounds["description"],
        rich_help_panel=spec.panel,
        callback=inherit if spec.panel == CLUSTER else None,
        min=bounds["ge"] if ranged else None,
        max=bounds["le"] if ranged else None,
    )
    return Annotated[kind | None, option]


def _flag_type(field: Field[Any]) -> type:
    return next((kind for kind in TYPES if field.type in (kind, kind | None)), str)


def _names(name: str, kind: type) -> tuple[str]:
    flag = flag_of(name)
    return (f"{flag}/--no-{flag[2:]}" if kind is bool else flag,)


def load_program(model: type[S], flags: Mapping[str, Any]) -> S:
    """Read the settings of a program. Raises SettingsError."""
    from kubenode.runtime.settings import load

    own = {name: value for name, value in flags.items() if name != CONFIG}
    path = flags.get(CONFIG)
    return load(model, own, _read_file(Path(path)) if path else None)


def _read_file(path: Path) -> "SettingsFile":
    """Read a file of settings. Raises SettingsError."""
    from kubenode.cli.documents import UnreadableDocument, read
    from kubenode.runtime.settings import SettingsError, SettingsFile

    try:
        documents = list(read(path))
    except UnreadableDocument as error:
        raise SettingsError(f"--config {error}") from error
    if len(documents) > 1:
        raise SettingsError(f"--config {path}: {len(documents)} YAML documents; write one")
    if not documents:
        return SettingsFile({}, str)
    document = documents[0]
    if not isinstance(document.data, dict):
        raise SettingsError(f"--config {path}: not a map; write settings as `logLevel: debug`")
    values = {str(key): value for key, value in document.data.items()}
    return SettingsFile(values, lambda key: document.where((key,)))
