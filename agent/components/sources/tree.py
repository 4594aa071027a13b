"""Installs a tarball or an OCI artefact into a folder of the host."""

from collections.abc import Collection

from agent.components.ports import Artefact, Installed, Trees


class TreeSource:
    """Implements agent.components.ports.ComponentFileSource with a tree of files."""

    def __init__(self, version: str, artefact: Artefact, trees: Trees) -> None:
        self._version, self._artefact, self._trees = version, artefact, trees

    async def read_installed(self) -> Installed:
        current = await self._trees.read_tree(self._artefact.dest)
        same = current.digest == self._artefact.digest
        other = f"sha256:{current.digest}" if current.digest else ""
        return Installed(
            self._version if same else other,
            exact=same and not current.changed,
            changed=current.changed,
        )

    async def stage(self) -> None:
        await self._trees.stage(self._artefact)

    async def install(self) -> None:
        if not (await self.read_installed()).exact:
            await self._trees.stage(self._artefact)
            await self._trees.install(self._artefact)

    async def remove(self, keep: Collection[str], *, purge: bool, back: bool = False) -> None:
        await self._trees.remove(self._artefact.dest, keep, back=back)

    async def hold(self) -> None:
        return
