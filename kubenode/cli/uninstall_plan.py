"""What `kubenode uninstall` would delete in which cluster, and the question before it does.

A person confirms on a terminal. A script passes `--yes`: without a terminal nothing is deleted
unless it says so.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import typer

from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.uninstall_nodes import plan_cleanup
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.lists import items

NO_TERMINAL = (
    "nothing was deleted: there is no terminal on which to ask; pass --yes to delete this,"
    " or --dry-run to print it only"
)


@dataclass(frozen=True, slots=True)
class UninstallPlan:
    """What is there to delete.

    objects: number of objects by plural, for kinds that the cluster serves.
    nodes: names of nodes with marks or conditions of ours.
    kinds: names of CustomResourceDefinitions of ours that exist.
    namespaces: our namespaces that exist.
    running: what keeps kinds, namespaces and marks, as an instruction; "" if nothing does.
    """

    target: str
    objects: Mapping[str, int]
    nodes: Sequence[str]
    kinds: Sequence[str]
    namespaces: Sequence[str]
    running: str

    def lines(self, first: Sequence[str]) -> list[str]:
        """Describe what is deleted. Pure.

        first: plurals that are deleted while the programs run.
        """
        counts = [f"{self.objects[kind]} {kind}" for kind in first if self.objects.get(kind)]
        lines = [f"  objects: {', '.join(counts) or 'none'}"]
        if self.running:
            remaining = f"{len(self.kinds)} kinds and {len(self.namespaces)} namespaces"
            return [*lines, f"  {remaining} stay until the programs have stopped: {self.running}"]
        rest = [
            f"{n} {kind}" for kind, n in sorted(self.objects.items()) if kind not in first and n
        ]
        return [
            *lines,
            f"  {len(self.kinds)} kinds, with {', '.join(rest) or 'no other objects'}",
            f"  namespaces: {', '.join(self.namespaces) or 'none'}",
            f"  marks and conditions on {len(self.nodes)} nodes",
        ]


@dataclass(frozen=True, slots=True)
class Removable:
    """Names of what an uninstall removes besides objects."""

    plurals: Sequence[str]
    kinds: Sequence[str]
    namespaces: Sequence[str]


async def read_plan(
    kube: Kube, target: str, served: set[str], removable: Removable, running: str
) -> UninstallPlan:
    """Count what is there. Reads only."""
    objects = {
        plural: len([item async for item in items(kube, paths.custom(plural))])
        for plural in removable.plurals
        if plural in served
    }
    nodes = [
        node["metadata"]["name"]
        async for node in items(kube, paths.nodes())
        if (cleanup := plan_cleanup(node)).node or cleanup.status
    ]
    kinds = [n for n in removable.kinds if await _exists(kube, paths.custom_resource_definition(n))]
    spaces = [n for n in removable.namespaces if await _exists(kube, paths.namespace(n))]
    return UninstallPlan(target, objects, nodes, kinds, spaces, running)


async def _exists(kube: Kube, path: str) -> bool:
    try:
        await kube.get(path)
    except NotFound:
        return False
    return True


def confirm(
    *, yes: bool, terminal: bool | None = None, ask: Callable[[str], bool] = typer.confirm
) -> None:
    """Return if the deletion is confirmed. Raises Refusal if it is not.

    terminal: None to find out.
    """
    if yes:
        return
    if not (sys.stdin.isatty() if terminal is None else terminal):
        raise Refusal(NO_TERMINAL, Exit.USAGE)
    if not ask("Delete it?"):
        raise Refusal("nothing was deleted")
