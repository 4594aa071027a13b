"""Commands of `kubenode component library`. As in kubenode.cli.app, nothing heavy is imported."""

from typing import TYPE_CHECKING, Annotated

import typer

from kubenode.cli.command_group import CommandGroup
from kubenode.cli.options import Context, Kubeconfig, Listing, ListingOutput

if TYPE_CHECKING:
    from kubenode.cli.component_edit import ComponentEdit

component_library_app = CommandGroup(help="List, show and install components of the library.")
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a component of the library.")]
Version = Annotated[
    str, typer.Option("--version", help="Another version; the entry's source follows it.")
]
Url = Annotated[str, typer.Option("--url", help="URL of the archive, such as that of a mirror.")]
Sha256 = Annotated[str, typer.Option("--sha256", help="SHA-256 of the archive, in hexadecimal.")]
Packages = Annotated[
    list[str] | None,
    typer.Option(
        "--package", metavar="NAME=VERSION", help="Exact version of a package; repeatable."
    ),
]
Values = Annotated[
    list[str] | None,
    typer.Option("--set-value", metavar="NAME=VALUE", help="Value of the set; repeatable."),
]
Selector = Annotated[
    list[str] | None,
    typer.Option(
        "--selector", metavar="KEY=VALUE", help="Label of the machines of the set; repeatable."
    ),
]


@component_library_app.command("list")
def list_(
    output: ListingOutput = Listing.TABLE,
) -> None:
    """List the components of the library."""
    from kubenode.cli.component_list import list_library
    from kubenode.cli.exits import explained

    with explained():
        raise typer.Exit(list_library(output))


@component_library_app.command("show")
def show(
    name: Name,
    version: Version = "",
    url: Url = "",
    sha256: Sha256 = "",
    package: Packages = None,
    value: Values = None,
    selector: Selector = None,
) -> None:
    """Print the objects of a component as YAML, to read them or to change more than flags can.

    Example: `kubenode component library show kubelet --version 1.35.4`
    """
    from kubenode.cli.component_list import show_entry
    from kubenode.cli.exits import explained

    with explained():
        raise typer.Exit(show_entry(name, _edit(version, url, sha256, package, value, selector)))


@component_library_app.command("install")
def install(
    name: Name,
    version: Version = "",
    url: Url = "",
    sha256: Sha256 = "",
    package: Packages = None,
    value: Values = None,
    selector: Selector = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Let the API server validate, and store nothing.")
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Store a component in the cluster, and with --selector the set that rolls it out.

    Example: `kubenode component library install runc --selector pool=online`
    """
    from kubenode.cli.component_install import install_component
    from kubenode.cli.exits import explained, run

    with explained():
        edit = _edit(version, url, sha256, package, value, selector)
    raise typer.Exit(run(install_component(name, edit, kubeconfig, context, dry_run=dry_run)))


def _edit(
    version: str,
    url: str,
    sha256: str,
    package: list[str] | None,
    value: list[str] | None,
    selector: list[str] | None,
) -> "ComponentEdit":
    from kubenode.cli.component_edit import ComponentEdit, parse_pairs

    return ComponentEdit(
        version,
        url,
        sha256,
        parse_pairs(package or (), "--package"),
        parse_pairs(value or (), "--set-value"),
        parse_pairs(selector or (), "--selector"),
    )
