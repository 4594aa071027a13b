"""The embedded API server in a thread of its own, with the same handles as a real control plane.

    with EmbeddedPlane() as plane:
        plane.kubectl("get", "nodes")
        Kube(connect(str(plane.kubeconfig)))

It has a thread, so that a test may block (kubectl) and its loop may end while the server goes on.
"""

import asyncio
import json
import shutil
import subprocess
import tempfile
import threading
import urllib.request
from collections.abc import Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from support.control_plane import run_kubectl

from kubenode.runtime.kube.client import MERGE_PATCH
from simulation.apiserver import EmbeddedApiServer

T = TypeVar("T")
STOP_SECONDS = 60.0


class EmbeddedPlane:
    """Lives as long as the `with` block; `options` are those of EmbeddedApiServer."""

    def __init__(self, **options: Any) -> None:
        self._options = options

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="kubenode-embedded-"))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="apiserver")
        self._thread.start()
        try:
            self.api = self._do(self._begin())
        except BaseException:
            self._end()
            raise
        self.server = self.api.url
        self.kubeconfig = self.folder / "kubeconfig"
        self.kubeconfig.write_text(self.api.kubeconfig_text())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.kill()
        finally:
            self._end()

    async def _begin(self) -> EmbeddedApiServer:
        api = EmbeddedApiServer(**self._options)
        await api.start()
        return api

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STOP_SECONDS)
        self._loop.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(STOP_SECONDS)

    # ---- use

    def kill(self) -> None:
        """Stop listening and end every connection."""
        self._do(self.api.stop())

    def start(self) -> None:
        """Listen again on the same port, with the same objects."""
        self._do(self.api.start())

    def kubectl(
        self,
        *args: str | Path,
        stdin: str | None = None,
        check: bool = True,
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl. With `check` a failure raises AssertionError with its output."""
        return run_kubectl(
            self.kubeconfig, *args, stdin=stdin, check=check, timeout=timeout, home=self.folder
        )

    def get(self, path: str) -> Any:
        """The decoded answer of a GET, by blocking I/O."""
        with urllib.request.urlopen(self.server + path, timeout=10) as answer:
            return json.load(answer)

    def patch(self, path: str, body: Any, kind: str = MERGE_PATCH) -> None:
        """The same of a PATCH, as anybody."""
        url, data = self.server + path, json.dumps(body).encode()
        asked = urllib.request.Request(url, data, {"Content-Type": kind}, method="PATCH")
        with urllib.request.urlopen(asked, timeout=10):
            pass
