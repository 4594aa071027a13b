"""The contract of HolderWakes: which callbacks a holder reaches."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from kubenode.api.v1alpha1.permit import Holder
from kubenode.runtime.disruption.wakes import HolderWakes, wake_by_name

JOB = Holder(kind="RemedyOperationJob", name="n1-xid", uid="u1")
MACHINE = Holder(kind="Machine", name="m1", uid="u2")


class RecordedSource:
    """Yields these holders, then ends."""

    def __init__(self, *holders: Holder) -> None:
        self.holders = holders

    async def wakes(self) -> AsyncIterator[Holder]:
        for holder in self.holders:
            yield holder


class SilentSource:
    """Yields nothing, without end."""

    async def wakes(self) -> AsyncIterator[Holder]:
        await asyncio.Event().wait()
        yield JOB


async def test_each_holder_reaches_each_callback_in_order() -> None:
    first: list[Holder] = []
    second: list[Holder] = []
    wakes = HolderWakes("wakes", RecordedSource(JOB, MACHINE), first.append)
    wakes.on_wake.append(second.append)
    await wakes.run()
    assert first == second == [JOB, MACHINE]
    assert wakes.name == "wakes"


async def test_wakes_by_name_pass_over_other_kinds() -> None:
    names: list[str] = []
    on_wake = wake_by_name("RemedyOperationJob", names.append)
    await HolderWakes("wakes", RecordedSource(MACHINE, JOB), on_wake).run()
    assert names == ["n1-xid"]


async def test_part_ends_without_kube_defender() -> None:
    woken: list[Holder] = []
    await HolderWakes("wakes", None, woken.append).run()
    assert woken == []


async def test_part_waits_without_end_and_is_cancelled() -> None:
    part = asyncio.ensure_future(HolderWakes("wakes", SilentSource()).run())
    await asyncio.sleep(0)
    assert not part.done()
    part.cancel()
    with pytest.raises(asyncio.CancelledError):
        await part
