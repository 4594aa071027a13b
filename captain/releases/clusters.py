"""Reads and writes the objects of a release in member clusters.

Every write is idempotent: applying again changes nothing, and so does restoring again.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from captain.members.cluster import Member, Members, MemberUnreachable
from captain.releases.content import Raw, build_restored
from captain.releases.health import find_unreadable, list_open_breakers, read_relapsed
from captain.releases.model import ClusterResult, MemberObservation
from kubenode.api.v1alpha1 import Release
from kubenode.api.v1alpha1.release import (
    OnConflict,
    PayloadKind,
    PayloadObject,
    ReleaseReason,
    ReleaseStatus,
)
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube.errors import Conflict, KubeError

MANAGER = "kubenode-captain"
"""Field manager of everything that a release writes."""
CLUSTERS_AT_ONCE = 128
"""Clusters that are read or written at the same time: 300 that do not answer take 30 s."""
REMOVED = "its MemberCluster was removed"
T = TypeVar("T")
_MANAGERS = re.compile(r'conflicts? with "([^"]*)"')


class ReleaseClusters:
    """The payload of releases in the members."""

    def __init__(self, members: Members, fence: Fence) -> None:
        self._members, self._fence = members, fence

    async def observe(
        self, payload: Sequence[PayloadObject], names: Iterable[str], *, breakers: bool
    ) -> Mapping[str, MemberObservation]:
        """Read the objects of the payload in each cluster.

        breakers: read the breakers of Kube Defender too.
        """
        return await _gather(names, lambda name: self._observe(name, payload, breakers))

    async def _observe(
        self, name: str, payload: Sequence[PayloadObject], breakers: bool
    ) -> MemberObservation:
        member = self._members.get(name)
        if member is None:
            return MemberObservation(REMOVED)
        try:
            objects = {
                each.key: await member.read(each.kind, each.metadata.name) for each in payload
            }
            policies = await member.list_all(PayloadKind.DEFENDER_POLICY) if breakers else ()
        except MemberUnreachable as error:
            return MemberObservation(str(error))
        except KubeError as error:
            return MemberObservation(f"member {name} does not answer as an API server: {error}")
        for wanted in payload:
            live = objects[wanted.key]
            if live is not None and (text := find_unreadable(wanted.kind, live)):
                return MemberObservation(f"member {name}: {wanted.key} is not readable: {text}")
        return MemberObservation(objects=objects, breakers=list_open_breakers(policies))

    async def apply(
        self, release: Release, intents: Mapping[str, Sequence[Raw]]
    ) -> Mapping[str, ClusterResult]:
        """Apply the objects in each cluster."""

        async def write(member: Member) -> ClusterResult:
            objects = intents[member.name]
            lives = [await self._apply(member, release, each) for each in objects]
            return ClusterResult(sum(map(read_relapsed, lives)))

        return await _gather(intents, lambda name: self._write(name, write))

    async def _apply(self, member: Member, release: Release, obj: Raw) -> Raw:
        self._fence.check()
        force = release.spec.on_conflict is OnConflict.FORCE
        try:
            return await member.apply(obj, manager=MANAGER, force=force)
        except Conflict as error:
            if set(_MANAGERS.findall(error.message)) != {MANAGER}:
                raise
            # A rollback replaced the object, and so owns its fields by another operation.
            self._fence.check()
            return await member.apply(obj, manager=MANAGER, force=True)

    async def restore(
        self, release: Release, status: ReleaseStatus, names: Iterable[str]
    ) -> Mapping[str, ClusterResult]:
        """Restore what stood in each cluster before the release, the last object first."""
        digests = {each.name: each.previous for stage in status.stages for each in stage.clusters}
        contents = {each.digest: json.loads(each.content) for each in status.previous}

        async def write(member: Member) -> ClusterResult:
            previous = contents[digests[member.name]]
            for wanted in reversed(release.spec.payload):
                await self._restore(member, wanted, previous[wanted.key])
            return ClusterResult()

        return await _gather(names, lambda name: self._write(name, write))

    async def _restore(self, member: Member, wanted: PayloadObject, previous: Raw | None) -> None:
        """Put an object back. None: it did not exist."""
        name = wanted.metadata.name
        if previous is None:
            self._fence.check()
            await member.delete(wanted.kind, name)
            return
        live = await member.read(wanted.kind, name)
        self._fence.check()
        await member.replace(build_restored(wanted, previous, live), manager=MANAGER)

    async def _write(
        self, name: str, write: Callable[[Member], Awaitable[ClusterResult]]
    ) -> ClusterResult:
        member = self._members.get(name)
        if member is None:
            return ClusterResult(reason=ReleaseReason.CLUSTER_UNREACHABLE, message=REMOVED)
        try:
            return await write(member)
        except MemberUnreachable as error:
            reason, final = ReleaseReason.CLUSTER_UNREACHABLE, False
            text = str(error)
        except Conflict as error:
            reason, final, text = ReleaseReason.APPLY_CONFLICT, False, error.message
        except KubeError as error:
            reason, final, text = ReleaseReason.WRITE_REFUSED, True, str(error)
        return ClusterResult(reason=reason, message=text, final=final)


async def _gather(names: Iterable[str], work: Callable[[str], Awaitable[T]]) -> dict[str, T]:
    """Do the work for each name, and return the results by name."""
    limit = asyncio.Semaphore(CLUSTERS_AT_ONCE)

    async def run(name: str) -> tuple[str, T]:
        async with limit:
            return name, await work(name)

    return dict(await asyncio.gather(*(run(name) for name in names)))
