import asyncio

import pytest

from kubenode.runtime.process import causes, forever, serve


class Part:
    """Runs until cancelled, or fails at once with `error`; tells `order` when it ends."""

    def __init__(self, name: str, order: list[str], error: Exception | None = None) -> None:
        self.name, self.order, self.error = name, order, error

    async def run(self) -> None:
        if self.error:
            raise self.error
        try:
            await forever()
        finally:
            self.order.append(self.name)


async def test_a_dead_part_ends_the_process() -> None:
    order: list[str] = []
    bad = Part("bad", order, OSError("watch died"))
    with pytest.raises(ExceptionGroup) as caught:
        await serve([Part("good", order), bad], ground=[Part("informer", order)])
    assert causes(caught.value) == [bad.error]
    assert order == ["good", "informer"]


async def test_dead_ground_ends_what_stands_on_it() -> None:
    order: list[str] = []
    bad = Part("informer", order, OSError("watch died"))
    with pytest.raises(ExceptionGroup) as caught:
        await serve([Part("controller", order)], ground=[bad])
    assert causes(caught.value) == [bad.error]
    assert order == ["controller"]


async def test_when_cancelled_the_ground_ends_last() -> None:
    order: list[str] = []
    parts = [Part("controller", order)]
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(serve(parts, ground=[Part("informer", order)]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
    assert order == ["controller", "informer"]


async def test_when_all_parts_have_ended_so_does_the_process() -> None:
    class Short:
        name = "short"

        async def run(self) -> None:
            return None

    order: list[str] = []
    await serve([Short()], ground=[Part("informer", order)])
    assert order == ["informer"]


def test_causes_are_told_once_each() -> None:
    one, two = ValueError("1"), OSError("2")
    group = ExceptionGroup("a", [one, ExceptionGroup("b", [two, one])])
    assert causes(group) == [one, two]
