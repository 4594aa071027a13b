"""Kubelet's client certificate, in the files where kubelet stores and renews it."""

import os
from contextlib import suppress
from pathlib import Path

from agent.host import HostError
from agent.host.ports import Certificate
from agent.identity.dates import dates

CURRENT = "/var/lib/kubelet/pki/kubelet-client-current.pem"
"""Link to the newest certificate; kubelet updates it at each renewal."""
BOOTSTRAP = "/etc/kubernetes/bootstrap-kubelet.conf"


class RealKubeletCertificate:
    """Implements agent.host.ports.KubeletCertificateStore."""

    def __init__(self, current: str = CURRENT, bootstrap: str = BOOTSTRAP) -> None:
        self._current, self._bootstrap = Path(current), Path(bootstrap)
        self._aside = self._current.with_name(f"{self._current.name}.expired")

    async def read(self) -> Certificate | None:
        try:
            data = self._current.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise HostError(f"{self._current}: {error.strerror}") from error
        try:
            return Certificate(*dates(data))
        except ValueError as error:
            raise HostError(f"{self._current} holds no certificate: {error}") from error

    async def can_bootstrap(self) -> bool:
        return self._bootstrap.is_file()

    async def set_aside(self) -> None:
        try:
            os.replace(self._current, self._aside)
        except OSError as error:
            raise HostError(f"{self._current}: {error.strerror}") from error

    async def put_back(self) -> None:
        if not self._current.exists():
            with suppress(FileNotFoundError):
                os.replace(self._aside, self._current)
