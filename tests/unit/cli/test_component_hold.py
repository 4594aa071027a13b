"""`kubenode component resume` says what it waits for, and for how long."""

import asyncio
from datetime import timedelta
from typing import Any, cast

import pytest
from support.clock import FakeClock, settle

from kubenode.api.v1alpha1 import MachineComponentSet
from kubenode.cli.component_hold import resume
from kubenode.cli.exits import Refusal
from kubenode.runtime.kube.client import Kube

PAUSED = {
    "type": "Paused",
    "status": "True",
    "reason": "AutoPaused",
    "message": "batch 1 failed: w1",
    "lastTransitionTime": "2026-01-01T12:00:00Z",
}


class Slow:
    """An API server whose operator takes no note until it is told to."""

    def __init__(self) -> None:
        self.clock, self.seen = FakeClock(), False
        self.written: list[dict[str, Any]] = []

    async def get(self, path: str, decode: Any) -> MachineComponentSet:
        return MachineComponentSet.model_validate(
            {
                "metadata": {"name": path.rpartition("/")[2]},
                "spec": {"selector": {"matchLabels": {"a": "b"}}, "component": "runc-1"},
                "status": {"conditions": [] if self.seen else [PAUSED]},
            }
        )

    async def patch(self, path: str, body: dict[str, Any]) -> None:
        self.written.append(body["spec"])

    async def lasts(self, seconds: int, waiting: asyncio.Task[str]) -> None:
        for _ in range(seconds):
            if waiting.done():
                return
            await settle(5)
            self.clock.step(timedelta(seconds=1))
        await settle(5)


async def test_a_wait_is_told_of_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    kube = Slow()
    waiting = asyncio.ensure_future(resume(cast(Kube, kube), "runc"))
    await kube.lasts(2, waiting)
    (stop,) = capsys.readouterr().err.splitlines()
    assert "runc: it stopped by itself, AutoPaused: batch 1 failed: w1" in stop
    assert kube.written == [{"paused": True}], "the usual second is not worth a word"
    await kube.lasts(40, waiting)
    first, *more = capsys.readouterr().err.splitlines()
    assert "runc: waits until the Machine operator has seen the pause, 150 s at most" in first
    assert len(more) == 2 and all("still waits, " in line for line in more)
    kube.seen = True
    await kube.lasts(2, waiting)
    assert (await waiting).startswith("goes on")
    assert kube.written[1:] == [{"paused": False, "frozen": False}]


async def test_who_takes_no_note_is_given_up(capsys: pytest.CaptureFixture[str]) -> None:
    kube = Slow()
    waiting = asyncio.ensure_future(resume(cast(Kube, kube), "runc"))
    await kube.lasts(200, waiting)
    with pytest.raises(Refusal, match="took no note of runc in 150 s"):
        await waiting
    assert len(capsys.readouterr().err.splitlines()) == 11
    assert kube.written == [{"paused": True}], "the set stays paused"
