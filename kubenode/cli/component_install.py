"""`kubenode component library install`: stores an entry of the library in a cluster.

A MachineComponent alone changes no host. The set is stored only if labels of machines are given. An
object that exists with other content stays as it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import typer

from kubenode.api.v1alpha1 import MachineComponent, MachineComponentSet
from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.component_edit import ComponentEdit, edit_entry, plain, require_digest
from kubenode.cli.component_library import LibraryComponent, find_entry
from kubenode.cli.exits import Exit, Refusal
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.components.wire import spec_of
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists
from kubenode.runtime.kube.paths import custom
from machine.componentset.access import ServerVersion
from machine.componentset.skew import describe_skew, needs_server

LibraryObject = MachineComponent | MachineComponentSet


@dataclass(frozen=True, slots=True)
class InstalledObject:
    """What an installation did with an object. complete: the cluster has it as it ships."""

    text: str
    complete: bool = True


async def install_component(
    name: str, edit: ComponentEdit, kubeconfig: str | None, context: str | None, *, dry_run: bool
) -> Exit:
    """Print a line for each object. Return FINDING if one could not be stored.

    dry_run: the API server validates, and nothing is written.
    """
    entry = edit_entry(find_entry(name), edit)
    require_digest(entry)
    failed = False
    async with connected(kubeconfig, context) as kube:
        kinds = (MachineComponent, MachineComponentSet)
        await require_crds(kube, {kind.resource.plural for kind in kinds})
        await _require_server(kube, entry)
        resources: list[LibraryObject] = [entry.component]
        if edit.selector:
            resources.append(entry.component_set)
        for resource in resources:
            result = await _store(kube, resource, {"dryRun": "All"} if dry_run else None)
            failed |= not result.complete
            suffix = " (dry run)" if dry_run else ""
            typer.echo(f"{resource.resource.kind} {resource.metadata.name} {result.text}{suffix}")
    if not edit.selector:
        typer.echo("kubenode: no set assigns it yet: pass --selector KEY=VALUE", err=True)
    return Exit.FINDING if failed else Exit.FINE


async def _require_server(kube: Kube, entry: LibraryComponent) -> None:
    """Raise Refusal if the version of the API server rules out the component."""
    spec = spec_of(entry.component.spec.model_dump(mode="json", by_alias=True))
    if needs_server(spec):
        versions = await ServerVersion(kube, SystemClock()).read()
        if skew := describe_skew(spec, versions):
            raise Refusal(skew)


async def _store(
    kube: Kube, resource: LibraryObject, query: Mapping[str, str] | None
) -> InstalledObject:
    path = custom(resource.resource.plural)
    try:
        await kube.create(path, plain(resource), query=query)
    except AlreadyExists:
        live = await kube.get(custom(resource.resource.plural, resource.metadata.name))
        return _compare(resource, live)
    return InstalledObject("created")


def _compare(resource: LibraryObject, live: Mapping[str, Any]) -> InstalledObject:
    """Compare an object of the library with the one of the same name, including defaults."""
    kind = type(resource)
    known = kind.model_validate(live, extra="ignore")
    if _content(known) == _content(resource):
        return InstalledObject("unchanged")
    if isinstance(known, MachineComponentSet) and isinstance(resource, MachineComponentSet):
        name, component = resource.metadata.name, resource.spec.component
        return InstalledObject(
            f"left alone: it assigns {known.spec.component} with settings of its own;"
            f" `kubenode component plan {name} --component {component}` shows the rollout, and"
            f" spec.component starts it",
            complete=False,
        )
    return InstalledObject(
        "left alone: it exists with other content, which cannot change: choose another version",
        complete=False,
    )


def _content(resource: LibraryObject) -> dict[str, Any]:
    spec: dict[str, Any] = resource.model_dump(mode="json", by_alias=True)["spec"]
    return spec
