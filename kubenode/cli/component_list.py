"""`kubenode component library list` and `show`."""

from typing import Any

import typer

from kubenode.api.v1alpha1 import MachineComponent
from kubenode.cli.component_edit import ComponentEdit, edit_entry, plain
from kubenode.cli.component_library import LibraryComponent, component_library, find_entry
from kubenode.cli.exits import Exit
from kubenode.cli.options import Listing
from kubenode.cli.tables import as_yaml, show

COLUMNS = {"NAME": "name", "COMPONENT": "component", "VERSION": "version", "SOURCE": "source"}
WIDE = {"NEEDS": "needs", "UPDATE": "update", "VALUES": "values"}


def list_library(output: Listing) -> Exit:
    """Print the entries of the library."""
    items = [summarize(entry) for entry in component_library().values()]
    show(items, COLUMNS, WIDE, output, MachineComponent.resource.kind)
    return Exit.FINE


def show_entry(name: str, edit: ComponentEdit) -> Exit:
    """Print the objects of an entry as YAML, with the settings of a site."""
    entry = edit_entry(find_entry(name), edit)
    documents = [as_yaml(plain(each)) for each in (entry.component, entry.component_set)]
    typer.echo("---\n".join(documents), nl=False)
    return Exit.FINE


def summarize(entry: LibraryComponent) -> dict[str, Any]:
    """Return the columns of an entry.

    update: class of a change to another patch version.
    """
    spec = entry.component.spec
    return {
        "name": entry.name,
        "component": spec.component,
        "version": spec.version,
        "source": spec.source.type.value,
        "needs": ", ".join(f"{d.component} {d.version}".strip() for d in spec.depends_on),
        "update": spec.disruption.patch.value,
        "values": ", ".join(entry.component_set.spec.values),
        "description": entry.description,
    }
