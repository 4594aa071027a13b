"""Installs a component with programs of the host that detect, install and uninstall it."""

from collections.abc import Collection, Sequence

from agent.components.ports import CommandRunner, Installed
from agent.host import HostError
from kubenode.runtime.components import wire

DETECT_SECONDS = 60.0
INSTALL_SECONDS = 1800.0
LONGEST_VERSION = 128
"""Characters; the API accepts no longer version."""


class ScriptSource:
    """Implements agent.components.ports.ComponentFileSource with scripts.

    version: of the component, as `detect` prints it
    name: of the revision and attempt that it is installed for
    """

    def __init__(
        self, version: str, source: wire.WireScript, runner: CommandRunner, name: str
    ) -> None:
        self._version, self._source, self._runner, self._name = version, source, runner, name

    async def read_installed(self) -> Installed:
        """Run `detect`, which prints the installed version; a nonzero exit status means none."""
        try:
            ran = await self._runner.run(self._source.detect, DETECT_SECONDS)
        except TimeoutError as error:
            raise HostError(_late(self._source.detect, DETECT_SECONDS)) from error
        output = ran.output.strip() if ran.code == 0 else ""
        version = output.splitlines()[0].strip()[:LONGEST_VERSION] if output else ""
        return Installed(version, version == self._version)

    async def stage(self) -> None:
        return

    async def install(self) -> None:
        if not (await self.read_installed()).exact:
            await self._run(self._source.install, "install")

    async def remove(self, keep: Collection[str], *, purge: bool, back: bool = False) -> None:
        if (await self.read_installed()).version:
            await self._run(self._source.uninstall, "uninstall")

    async def hold(self) -> None:
        return

    async def _run(self, argv: Sequence[str], step: str) -> None:
        try:
            ran = await self._runner.run(argv, INSTALL_SECONDS, f"{self._name}-{step}")
        except TimeoutError as error:
            raise HostError(_late(argv, INSTALL_SECONDS)) from error
        if ran.code != 0:
            raise HostError(f"{' '.join(argv)}: exit status {ran.code}: {ran.output}")


def _late(argv: Sequence[str], limit: float) -> str:
    return f"{' '.join(argv)}: no end in {limit:g} s"
