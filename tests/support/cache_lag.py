"""How far the caches of a process are behind the API server, beside a watch that does nothing else.

A machine that has too little to give is late everywhere. So the lag of a cache is what it is
behind a bare watch of the same path in the same run, less the time for which the process's main
thread was ready to run and no processor was free (/proc/PID/schedstat).
"""

import asyncio
import urllib.request
from pathlib import Path

from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import TooManyRequests
from kubenode.runtime.kube.listwatch import ListWatch
from kubenode.runtime.kube.wire import decode_event, decode_head

VERSION = "kubenode_informer_resource_version"
WATCH_SECONDS = 280.0
GIVE_UP_SECONDS = 60.0


class BareWatch:
    """version  of the newest change that it has read"""

    def __init__(self, kube: Kube, path: str) -> None:
        self.version = 0
        self._server = ListWatch(
            kube,
            path,
            label_selector=None,
            field_selector=None,
            page=1,
            watch_seconds=WATCH_SECONDS,
            grace=30.0,
        )

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            listed = await self._server.page(None)
            self.version = max(self.version, int(listed.metadata.resource_version))
            try:
                await self._follow(listed.metadata.resource_version)
            except TooManyRequests:  # the API server prepares to serve the kind
                await asyncio.sleep(0.1)

    async def _follow(self, version: str) -> None:
        async with self._server.watch(version) as read_line:
            while line := await read_line():
                event = decode_event(line)
                if event.type == "ERROR":
                    return
                self.version = int(decode_head(event.object).metadata.resource_version)


def waited_for_processor(pid: int) -> float:
    """Seconds for which the main thread of `pid` was ready to run and did not."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


def family_waited(pid: int) -> float:
    """The same of `pid` and of the processes that it started, summed."""
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    children = [child for thread in threads for child in thread.read_text().split()]
    return waited_for_processor(pid) + sum(family_waited(int(child)) for child in children)


async def lag(bare: BareWatch, port: int, pid: int, resource: str, version: int) -> float:
    """Seconds that the informer of `resource` needs from now to have `version`, beyond those that
    the bare watch does and those without a processor.
    """
    loop = asyncio.get_running_loop()
    began, waited = loop.time(), waited_for_processor(pid)
    floor: float | None = None
    while True:
        if floor is None and bare.version >= version:
            floor = loop.time() - began
        if floor is not None and (await versions(port))[resource] >= version:
            return max(0.0, loop.time() - began - floor - (waited_for_processor(pid) - waited))
        late = loop.time() - began > GIVE_UP_SECONDS
        assert not late, f"{resource} has not {version} after {GIVE_UP_SECONDS:g} s; floor {floor}"
        await asyncio.sleep(0.05)


async def versions(port: int) -> dict[str, float]:
    """By resource, the newest resourceVersion in each cache of the process with this health port.

    Raises OSError.
    """
    url = f"http://127.0.0.1:{port}/metrics"
    told = (await asyncio.to_thread(_read, url)).splitlines()
    return {
        line.split('"')[1]: float(line.rsplit(" ", 1)[1])
        for line in told
        if line.startswith(f"{VERSION}{{")
    }


def _read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())
