"""`kubenode uninstall`: removes what `kubenode install` and the programs have created.

It takes two runs, each of which can be repeated. The first is for a cluster in which the programs
run. It deletes rules, so that nothing new begins, and then jobs, Machines and components; the
programs remove the finalizers after they have undone their changes. The second run is after the
programs are stopped. It removes marks on nodes, kinds and namespaces.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import typer

from kubenode.api.names import list_first
from kubenode.api.v1alpha1 import Release
from kubenode.api.v1alpha1.machine import MachineOrigin
from kubenode.api.v1alpha1.release import ReleasePhase
from kubenode.cli.cluster import connected, crds
from kubenode.cli.exits import Refusal
from kubenode.cli.install import NAMESPACES
from kubenode.cli.member_app import MEMBERS_NAMESPACE
from kubenode.cli.uninstall_nodes import plan_cleanup
from kubenode.cli.uninstall_plan import Removable, UninstallPlan, confirm, read_plan
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import STRATEGIC_PATCH, Kube
from kubenode.runtime.kube.errors import Conflict, NotFound
from kubenode.runtime.kube.lists import items
from machine.names import COMPONENTS

SYSTEM = NAMESPACES[0]
SPACES = (*NAMESPACES, COMPONENTS, MEMBERS_NAMESPACE)
"""Namespaces that are ours alone."""
SINGLE_PROCESS = "kubenode-all"
LEADERS = (
    "kubenode-remedy",
    "kubenode-defender",
    "kubenode-machine",
    "kubenode-captain",
    SINGLE_PROCESS,
)
"""Leases of the programs; SINGLE_PROCESS is that of `kubenode run all`."""
RELEASES = Release.resource.plural
ENDED_PHASES = frozenset(phase.value for phase in ReleasePhase if phase.ended)
ORDER: tuple[tuple[str, str], ...] = (
    (RELEASES, "kubenode-captain"),
    ("noderemediers", "kubenode-remedy"),
    ("nodesets", "kubenode-machine"),
    ("machinesets", "kubenode-machine"),
    ("remedyoperationjobs", "kubenode-remedy"),
    ("machinecomponentsets", "kubenode-machine"),
    ("machines", "kubenode-machine"),
    ("machinecomponents", "kubenode-machine"),
)
"""Kinds that start something or have finalizers, in the order of their deletion, with the Lease of
the program that removes the finalizers. A component stays while a Machine names it, a set until its
Machines are done with it.
"""
POLL_SECONDS, TELL_SECONDS = 0.5, 15.0
WRITES = 5
SHOWN = 5
Item = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Uninstaller:
    """Removes KubeNode from a cluster.

    seconds: timeout for each kind and each namespace.
    namespace: a further namespace in which programs may have their Leases. It is not deleted.
    """

    kube: Kube
    tell: Callable[[str], None]
    seconds: float
    namespace: str = SYSTEM

    async def plan(self, target: str) -> UninstallPlan:
        """Count what there is to delete.

        target: description of the cluster.

        Raises Refusal for Machines that a provider made, and for releases in progress.
        """
        served = await self._kinds()
        await self._refuse_releases(served)
        await self._list_imported(served)
        definitions = crds()
        removable = Removable(
            [crd["spec"]["names"]["plural"] for crd in definitions],
            sorted(crd["metadata"]["name"] for crd in definitions),
            SPACES,
        )
        return await read_plan(self.kube, target, served, removable, await self._programs())

    async def run(self) -> None:
        """Remove everything, or stop and say which programs to stop first. Raises Refusal."""
        there = await self._kinds()
        await self._refuse_releases(there)
        for host in await self._list_imported(there):
            self.tell(
                f"the agent stays on the host of Machine {host};"
                " `kubenode machine export NAME --ssh USER@HOST` takes it off"
            )
        for kind, lease in ORDER:
            if kind in there:
                await self._empty(kind, lease)
        if what := await self._programs():
            self.tell(f"{what}, then run `kubenode uninstall` again for the rest")
            return
        await self._clean_nodes()
        kinds = sorted(crd["metadata"]["name"] for crd in crds())
        await self._away(
            {f"kind {crd_name}": paths.custom_resource_definition(crd_name) for crd_name in kinds}
        )
        await self._away({f"namespace {name}": paths.namespace(name) for name in SPACES})
        self.tell("nothing of KubeNode is left in this cluster")

    async def _kinds(self) -> set[str]:
        """Return the plurals of our kinds that the cluster serves."""
        try:
            served = await self.kube.get(f"/apis/{paths.GROUP}/{paths.VERSION}")
        except NotFound:
            return set()
        return {resource["name"] for resource in served.get("resources", ())}

    async def _refuse_releases(self, there: set[str]) -> None:
        """Raise Refusal for releases in progress: nothing would restore their clusters."""
        if RELEASES not in there:
            return
        listed = items(self.kube, paths.custom(RELEASES))
        if open_ := [each["metadata"]["name"] async for each in listed if is_in_progress(each)]:
            raise Refusal(
                f"{len(open_)} Releases are in progress: {_some(open_)}; roll them back or abort"
                " them by `kubenode release rollback NAME` or `kubenode release abort NAME`, and"
                " run this again"
            )

    async def _list_imported(self, there: set[str]) -> list[str]:
        """List imported Machines with their addresses.

        Raises Refusal if deletion would delete instances of a provider.
        """
        if "machines" not in there:
            return []
        made, hosts = [], []
        async for machine in items(self.kube, paths.custom("machines")):
            spec, name = machine.get("spec", {}), machine["metadata"]["name"]
            if spec.get("origin", MachineOrigin.IMPORT) == MachineOrigin.IMPORT:
                hosts.append(f"{name} ({', '.join(spec.get('addresses', ())) or 'no address'})")
            else:
                made.append(name)
        if made:
            raise Refusal(
                f"{len(made)} Machines were made by a provider, and deleting them deletes their"
                f" instances: {_some(made)}; if that is meant, delete them and their MachineSets by"
                " `kubectl delete knms,knm NAME`, and run this again"
            )
        return hosts

    # -- objects ------------------------------------------------------------------------------

    async def _empty(self, kind: str, lease: str) -> None:
        """Delete all objects of a kind, and those that appear meanwhile.

        Raises Refusal on a timeout.
        """
        clock, path = self.kube.clock, paths.custom(kind)
        end = clock.monotonic() + self.seconds
        reported_at, count = clock.monotonic(), -1
        while True:
            rest = [item async for item in items(self.kube, path)]
            for item in rest:
                if "deletionTimestamp" not in item["metadata"]:
                    await self._delete(paths.custom(kind, item["metadata"]["name"]))
            if count < 0 and rest:
                self.tell(f"{kind}: {len(rest)} are deleted")
            if not rest:
                return
            now = clock.monotonic()
            if now >= end:
                raise Refusal(await self._describe_blockers(kind, rest, lease))
            if len(rest) != count:
                count, reported_at = len(rest), now
            elif now - reported_at >= TELL_SECONDS:
                reported_at = now
                self.tell(await self._describe_blockers(kind, rest, lease))
            await clock.sleep(POLL_SECONDS)

    async def _describe_blockers(self, kind: str, rest: list[Item], lease: str) -> str:
        names = _some([item["metadata"]["name"] for item in rest])
        marks = {name for item in rest for name in item["metadata"].get("finalizers", ())}
        spec = await self._lease(self.namespace, lease)
        everything = await self._lease(self.namespace, SINGLE_PROCESS)
        if not spec.get("holderIdentity") and everything:
            lease, spec = SINGLE_PROCESS, everything
        holder, renewed = spec.get("holderIdentity") or "nobody", spec.get("renewTime", "never")
        return (
            f"{kind}: {len(rest)} are still there: {names}; finalizers {', '.join(sorted(marks))}"
            f" are taken off by the holder of Lease {self.namespace}/{lease}: {holder}, renewed"
            f" {renewed}. If no program runs any more, run `kubenode run all` beside this command"
        )

    async def _lease(self, namespace: str, name: str) -> Item:
        """Return the spec of a program's Lease, {} if it does not exist."""
        lease = await self._get(paths.lease(namespace, name)) or {}
        spec: Item = lease.get("spec") or {}
        return spec

    async def _delete(self, path: str) -> bool:
        """Delete an object. Return whether it existed."""
        try:
            await self.kube.delete(path, propagation="Background")
        except NotFound:
            return False
        return True

    async def _away(self, what: Mapping[str, str]) -> None:
        """Delete objects and wait until they are gone. Raises Refusal on a timeout.

        what: description to path.
        """
        going = {label: path for label, path in what.items() if await self._delete(path)}
        end = self.kube.clock.monotonic() + self.seconds
        for label, path in going.items():
            while there := await self._get(path):
                if self.kube.clock.monotonic() >= end:
                    conditions = (there.get("status") or {}).get("conditions") or ()
                    why = "; ".join(
                        condition["message"] for condition in conditions if condition.get("message")
                    )
                    raise Refusal(f"{label} is still being deleted: {why or 'nobody says why'}")
                await self.kube.clock.sleep(POLL_SECONDS)
            self.tell(f"{label}: gone")

    async def _get(self, path: str) -> Item | None:
        try:
            return await self.kube.get(path)
        except NotFound:
            return None

    # -- programs and nodes -------------------------------------------------------------------

    async def _programs(self) -> str:
        """Return which programs must be stopped first and how, "" if none runs."""
        secrets = f"/api/v1/namespaces/{SYSTEM}/secrets"
        query = {"fieldSelector": "type=helm.sh/release.v1"}
        releases = (await self.kube.get(secrets, query=query))["items"]
        names = sorted(
            {release["metadata"].get("labels", {}).get("name", "") for release in releases}
        )
        if names:
            return f"now `helm uninstall {names[0]} -n {SYSTEM} --wait`"
        for kind in ("deployments", "statefulsets"):
            path = f"/apis/apps/v1/namespaces/{SYSTEM}/{kind}"
            query = {"labelSelector": "app.kubernetes.io/part-of=kubenode"}
            if (await self.kube.get(path, query=query))["items"]:
                return "now `kubectl delete -k charts/kubenode`"
        leases = [(s, name) for s in {SYSTEM: 0, self.namespace: 0} for name in LEADERS]
        renewed = await asyncio.gather(*(self._renewed(*lease) for lease in leases))
        running = [name for (_, name), active in zip(leases, renewed, strict=True) if active]
        if not running:
            return ""
        program = " (`kubenode run all`)" if SINGLE_PROCESS in running else ""
        return f"now stop the holder of Lease {', '.join(running)}{program}"

    async def _renewed(self, namespace: str, name: str) -> bool:
        """Return whether the Lease is being renewed.

        It waits for a change, since two clocks may differ.
        """
        clock = self.kube.clock
        first = await self._lease(namespace, name)
        end = clock.monotonic() + float(first.get("leaseDurationSeconds") or 0)
        while first.get("holderIdentity") and clock.monotonic() < end:
            now = await self._lease(namespace, name)
            if now.get("renewTime") != first.get("renewTime"):
                return bool(now.get("holderIdentity"))
            await clock.sleep(POLL_SECONDS)
        return False

    async def _clean_nodes(self) -> None:
        async for node in items(self.kube, paths.nodes()):
            current: Item | None = node
            for _ in range(WRITES):
                if current is None or await self._cleaned(current):
                    break
                current = await self._get(paths.node(node["metadata"]["name"]))

    async def _cleaned(self, node: Item) -> bool:
        """Remove our marks from a Node.

        Return False if somebody else has written the Node meanwhile.
        """
        cleanup, meta = plan_cleanup(node), node["metadata"]
        path = paths.node(meta["name"])
        changed = {**cleanup.node.get("metadata", {}), "resourceVersion": meta["resourceVersion"]}
        try:
            if cleanup.node:
                await self.kube.patch(path, {**cleanup.node, "metadata": changed})
                self.tell(f"node {meta['name']}: marks that were left are taken off")
            if cleanup.status:
                await self.kube.patch(f"{path}/status", cleanup.status, STRATEGIC_PATCH)
                self.tell(f"node {meta['name']}: the agent's conditions are taken off")
        except Conflict:
            return False
        except NotFound:
            pass
        return True


def is_in_progress(release: Item) -> bool:
    """Return whether a Release has begun to change clusters, and has not ended."""
    status = release.get("status", {})
    return "snapshot" in status and status.get("phase") not in ENDED_PHASES


def _some(names: list[str]) -> str:
    return list_first(sorted(names), SHOWN)


@dataclass(frozen=True, slots=True)
class UninstallRequest:
    """The arguments of `kubenode uninstall`.

    yes: do not ask.
    dry_run: print what would be deleted, delete nothing.
    """

    seconds: float
    namespace: str
    yes: bool
    dry_run: bool


async def uninstall(kubeconfig: str | None, context: str | None, request: UninstallRequest) -> None:
    from kubenode.runtime.kube.official import describe_target

    async with connected(kubeconfig, context) as kube:
        uninstaller = Uninstaller(kube, typer.echo, request.seconds, request.namespace)
        plan = await uninstaller.plan(describe_target(kubeconfig, context))
        verb = "Would delete" if request.dry_run else "Deletes"
        typer.echo("\n".join([f"{verb} from {plan.target}:", *_plan(plan)]))
        if request.dry_run:
            return
        confirm(yes=request.yes)
        await uninstaller.run()


def _plan(plan: UninstallPlan) -> list[str]:
    return plan.lines([kind for kind, _ in ORDER])
