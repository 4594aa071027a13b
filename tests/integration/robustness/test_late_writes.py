"""What a leader was about to write when its reign ended never leaves the process."""

import asyncio
import time

import pytest
from support.fake_kube import FakeKube, hang

from kubenode.runtime.fence import LeaseLost, under
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import ServerUnreachable
from kubenode.runtime.kube.plain import PlainTransport


class Reigning:
    """A reign whose end is a lever, or comes by itself after some questions."""

    over = False

    def __init__(self, questions: int = 1000) -> None:
        self._questions = questions

    def check(self) -> int:
        self._questions -= 1
        self.over |= self._questions < 0
        if self.over:
            raise LeaseLost("the lease is gone")
        return 1

    def remaining_seconds(self) -> float:
        return 0.0 if self.over else 0.3


async def test_a_write_that_waited_its_turn_is_not_sent_once_the_lease_is_lost() -> None:
    """The check before the act was passed; being cancelled would come too late."""
    async with FakeKube() as server:
        server.objects[paths.nodes()] = {}
        server.put(paths.nodes(), {"metadata": {"name": "n1"}})
        kube = Kube(PlainTransport(server.url), rate=5.0, burst=1.0)
        reign = Reigning()
        with under(reign):
            await kube.patch(paths.node("n1"), {"spec": {"unschedulable": True}})
            late = asyncio.ensure_future(kube.patch(paths.node("n1"), {"spec": {}}))
        await asyncio.sleep(0)
        reign.over = True
        with pytest.raises(LeaseLost):
            await late
        with under(reign):
            assert (await kube.get(paths.node("n1")))["spec"] == {"unschedulable": True}
        await kube.patch(paths.node("n1"), {"spec": {"unschedulable": False}})
        await kube.close()
    assert server.asked("PATCH") == 2, "one under the reign, one of a part that needs no lease"


async def test_a_write_is_not_sent_when_the_lease_went_while_it_was_put_together() -> None:
    """From the question to the socket is a turn of the loop or more: who was stopped there for a
    minute goes on right there."""
    async with FakeKube() as server:
        server.objects[paths.nodes()] = {}
        server.put(paths.nodes(), {"metadata": {"name": "n1"}})
        kube = Kube(PlainTransport(server.url))
        with under(Reigning(questions=1)), pytest.raises(LeaseLost):
            await kube.patch(paths.node("n1"), {"spec": {"unschedulable": True}})
        assert server.asked("PATCH") == 0
        assert not kube.outage.down, "nothing is known of the server"
        await kube.patch(paths.node("n1"), {"spec": {"unschedulable": False}})
        await kube.close()


async def test_a_write_that_finds_no_answer_is_given_up_before_another_may_lead() -> None:
    async with FakeKube() as server:
        server.faults.append(hang)
        kube = Kube(PlainTransport(server.url))
        began = time.monotonic()
        with under(Reigning()), pytest.raises(ServerUnreachable):
            await kube.patch(paths.node("n1"), {"spec": {}})
        assert time.monotonic() - began < kube.timeout / 2
        await kube.close()
