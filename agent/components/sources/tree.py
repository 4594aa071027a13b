"""A tarball or an OCI artefact, unpacked into a folder of the host."""

from collections.abc import Collection

from agent.components.ports import Artefact, Installed, Trees


class TreeSource:
    """Implements agent.components.ports.ComponentFileSource. version: of the component."""

    def __init__(self, version: str, artefact: Artefact, trees: Trees) -> None:
        self._version, self._artefact, self._trees = version, artefact, trees

    async def found(self) -> Installed:
        found = await self._trees.found(self._artefact.dest)
        same = found.digest == self._artefact.digest
        other = f"sha256:{found.digest}" if found.digest else ""
        return Installed(
            self._version if same else other,
            exact=same and not found.changed,
            changed=found.changed,
        )

    async def stage(self) -> None:
        await self._trees.stage(self._artefact)

    async def install(self) -> None:
        if not (await self.found()).exact:
            await self._trees.stage(self._artefact)
            await self._trees.install(self._artefact)

    async def remove(self, keep: Collection[str], *, purge: bool, back: bool = False) -> None:
        await self._trees.remove(self._artefact.dest, keep, back=back)

    async def hold(self) -> None:
        return
