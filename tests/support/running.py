"""Run an endless coroutine beside a test, and wait for conditions instead of times."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node, structs

NODES = paths.nodes()


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator["asyncio.Task[None]"]:
    """Cancelled at the end of the block; what it raised before that is raised there."""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(work)
        try:
            yield task
        finally:
            task.cancel()


async def until(condition: Callable[[], bool], seconds: float = 60.0, what: str = "") -> None:
    """Return as soon as `condition()` holds; AssertionError after `seconds`."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not condition():
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"not within {seconds} s: {what or condition}")
        await asyncio.sleep(0.005)


async def gone(pid: int) -> None:
    """Dead, though perhaps not yet waited for by its parent."""
    stat = Path(f"/proc/{pid}/stat")

    def dead() -> bool:
        try:
            return stat.read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    await until(dead, what=f"process {pid} to be gone")


@asynccontextmanager
async def following(
    kube: Kube, *, path: str = NODES, synced: bool = True, **options: Any
) -> AsyncIterator[Informer[Node]]:
    """An Informer of Nodes that has listed, with delays short enough for a test."""
    given: dict[str, Any] = {
        "watch_seconds": 2.0,
        "grace": 0.5,
        "backoff": (0.05, 0.5),
        "resync": None,
    }
    informer = Informer(kube, path, structs(Node), **(given | options))
    async with running(informer.run()):
        if synced:
            await asyncio.wait_for(informer.synced.wait(), 10)
        yield informer
