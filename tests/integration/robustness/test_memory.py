"""Memory that has run out: a process that cannot go on ends, and starts anew with what is true."""

import pytest

from kubenode.runtime.clock import SystemClock
from kubenode.runtime.controller.controller import Controller
from kubenode.runtime.controller.result import Result


async def test_a_process_without_memory_ends_instead_of_trying_for_ever() -> None:
    """What it holds is not given back by trying again; whoever starts it anew gives it room."""

    async def reconcile(key: str) -> Result:
        raise MemoryError

    controller = Controller("any", reconcile, clock=SystemClock())
    controller.queue.add("n1")
    with pytest.raises(ExceptionGroup) as caught:
        await controller.run()
    assert caught.group_contains(MemoryError, depth=1)
