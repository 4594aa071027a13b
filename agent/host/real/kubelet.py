"""Kubelet's client certificate, in the files where kubelet stores and renews it.

Units of systemd rename the link, because a Pod sees the host's files read-only.
"""

from pathlib import PurePosixPath

from agent.host import HostError
from agent.host.files import HostRoot
from agent.host.ports import Certificate
from agent.host.real.commands import Commands, HostCommand
from agent.identity.dates import dates

CURRENT = "/var/lib/kubelet/pki/kubelet-client-current.pem"
"""Link to the newest certificate; kubelet updates it at each renewal."""
BOOTSTRAP = "/etc/kubernetes/bootstrap-kubelet.conf"


RENAME_SECONDS = 10.0
_RIGHTS = ("CAP_DAC_OVERRIDE",)


class RealKubeletCertificate:
    """Implements agent.host.ports.KubeletCertificateStore.

    current, bootstrap: paths of the host
    """

    def __init__(
        self,
        commands: Commands,
        files: HostRoot,
        current: str = CURRENT,
        bootstrap: str = BOOTSTRAP,
    ) -> None:
        self._commands, self._files = commands, files
        self._current, self._bootstrap = current, bootstrap
        self._aside = f"{current}.expired"

    async def read(self) -> Certificate | None:
        try:
            data = self._files.read_bytes(self._current)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise HostError(f"{self._current}: {error.strerror}") from error
        try:
            return Certificate(*dates(data))
        except ValueError as error:
            raise HostError(f"{self._current} holds no certificate: {error}") from error

    async def can_bootstrap(self) -> bool:
        return self._files.exists(self._bootstrap)

    async def set_aside(self) -> None:
        await self._rename("mv", "-T", "--", self._current, self._aside)

    async def put_back(self) -> None:
        if not self._files.exists(self._current) and self._has_aside():
            await self._rename("mv", "-T", "--", self._aside, self._current)

    def _has_aside(self) -> bool:
        """Whether the link is set aside; its target may be gone."""
        aside = PurePosixPath(self._aside)
        folder = str(aside.parent)
        return self._files.is_dir(folder) and aside.name in self._files.list_names(folder)

    async def _rename(self, *argv: str) -> None:
        await self._commands.checked(HostCommand(argv, RENAME_SECONDS, _RIGHTS))
