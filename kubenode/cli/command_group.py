"""Groups and commands of `kubenode`: flags that name the cluster, accepted at every level.

`kubenode --context X job list`, `kubenode job --context X list` and `kubenode job list --context X`
are the same command, as with kubectl. The deepest flag wins, then KUBENODE_* variables apply.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

PANEL = "Cluster"
META = "kubenode.cluster"
"""Key of the context's `meta` under which groups store the flags that they got."""
SYSTEM_NAMESPACE = "kubenode-system"
OUTPUT_FLAGS, JSONPATH = ("-o", "--output"), "jsonpath="


def inherit(ctx: typer.Context, param: typer.CallbackParam, value: str | None) -> str | None:
    """Return the value of a command's flag; if it was not given, the value of a group's flag."""
    source = ctx.get_parameter_source(param.name)
    if source is not None and source.name == "COMMANDLINE":
        return value
    inherited: str | None = ctx.meta.get(META, {}).get(param.name, value)
    return inherited


GroupKubeconfig = Annotated[
    str | None,
    typer.Option("--kubeconfig", metavar="FILE", rich_help_panel=PANEL,
                 help="Kubeconfig file, for the command that follows."),
]  # fmt: skip
GroupContext = Annotated[
    str | None,
    typer.Option("--context", metavar="NAME", rich_help_panel=PANEL,
                 help="Context of the kubeconfig."),
]  # fmt: skip
GroupNamespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", metavar="NAME", rich_help_panel=PANEL,
                 help=f"Namespace of KubeNode's programs; default {SYSTEM_NAMESPACE}."),
]  # fmt: skip


def store_cluster(
    ctx: typer.Context,
    kubeconfig: GroupKubeconfig = None,
    context: GroupContext = None,
    namespace: GroupNamespace = None,
) -> None:
    """Store the flags of a group for its commands."""
    flags = {"kubeconfig": kubeconfig, "context": context, "namespace": namespace}
    given = {name: value for name, value in flags.items() if value is not None}
    ctx.meta[META] = {**ctx.meta.get(META, {}), **given}


class KubenodeCommand(TyperCommand):
    """A command. If it connects to a cluster, it accepts `-n`, as every command of kubectl does."""

    def __init__(self, name: str | None, **settings: Any) -> None:
        super().__init__(name, **settings)
        for param in self.params:
            _accept_any_case(param)
        names = {param.name for param in self.params}
        if "kubeconfig" in names and "namespace" not in names:
            self.params.append(_ignored_namespace())

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if any(_prints_data(param) for param in self.params):
            args = _take_template(ctx, args)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _hide_flag_types(self, ctx)
        super().format_help(ctx, formatter)


class KubenodeGroup(TyperGroup):
    def format_help(self, ctx: Any, formatter: Any) -> None:
        _hide_flag_types(self, ctx)
        super().format_help(ctx, formatter)


class CommandGroup(typer.Typer):
    """A group of commands, with the flags that name the cluster."""

    def __init__(self, **settings: Any) -> None:
        defaults: dict[str, Any] = {"cls": KubenodeGroup, "callback": store_cluster}
        defaults["no_args_is_help"] = True
        super().__init__(**(defaults | settings))

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        return super().command(name, **({"cls": KubenodeCommand} | settings))


def _accept_any_case(param: Any) -> None:
    """Accept the values of an enumeration in any case: `--mode dryrun`, `-o JSON`."""
    choices = param.type_descriptor.choices
    if choices is not None:
        param.type_descriptor.parameter_info.case_sensitive = False
        names = [choice.value for choice in choices]
        if _prints_data(param):
            names.append(f"{JSONPATH}TEMPLATE")
        param.metavar = param.metavar or "|".join(names)


def _prints_data(param: Any) -> bool:
    """Return whether the option is a format of lists or reports, which may be data."""
    choices = param.type_descriptor.choices or ()
    return {"json", "yaml"} <= {choice.value for choice in choices}


def _take_template(ctx: Any, args: list[str]) -> list[str]:
    """Store the template of `-o jsonpath=TEMPLATE` and return the arguments with `-o json`.

    Accepts `-o=json` too, as kubectl does.
    """
    from kubenode.cli.jsonpath import OUTPUT_TEMPLATE, JsonPathError, parse_template

    OUTPUT_TEMPLATE.set(None)
    arguments = list(_split_output(args))
    for index, value in enumerate(arguments):
        flag = arguments[index - 1] if index else ""
        if value.startswith(JSONPATH) and flag in OUTPUT_FLAGS:
            try:
                OUTPUT_TEMPLATE.set(parse_template(value.removeprefix(JSONPATH)))
            except JsonPathError as error:
                ctx.fail(f"{flag}: {error}")
            arguments[index] = "json"
    return arguments


def _split_output(args: list[str]) -> Iterator[str]:
    """Yield the arguments, with the flag of the format and its value apart."""
    for argument in args:
        match = re.fullmatch(r"(-o|--output)=(.*)|(-o)(.+)", argument, re.DOTALL)
        yield from [argument] if match is None else filter(None, match.groups())


def _hide_flag_types(command: TyperCommand | TyperGroup, ctx: Any) -> None:
    """Keep `<bool>` out of the help of flags, which take no value."""
    for param in command.get_params(ctx):
        if isinstance(param, TyperOption) and param.is_flag and param.metavar is None:
            param.metavar = ""


@cache
def _ignored_namespace() -> TyperOption:
    """Build the option `-n` of commands that read no namespace."""
    program = typer.Typer()

    @program.command()
    def flags(
        namespace: Annotated[
            str | None,
            typer.Option("--namespace", "-n", metavar="NAME", rich_help_panel=PANEL,
                         help="Ignored: this command reads no namespace."),
        ] = None,
    ) -> None:  # fmt: skip
        """Carry the option."""

    params = typer.main.get_command(program).params
    option = next(param for param in params if param.name == "namespace")
    assert isinstance(option, TyperOption)
    option.expose_value = False
    return option
