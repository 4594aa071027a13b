"""Leader election under the faults that made others lead twice."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from support.fake_kube import FakeKube, Fault, answer, hang, reset, status
from support.running import running, until

from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.plain import PlainTransport
from kubenode.runtime.lease import LeaderElection, LeaseLost

LEASES = paths.leases("ns")
TTL, DEADLINE, RETRY = 1.2, 0.8, 0.1


@pytest.fixture
async def lease_kube(server: FakeKube) -> AsyncIterator[Kube]:
    client = Kube(PlainTransport(server.url), timeout=5.0, attempts=1)
    yield client
    await client.close()


class Candidate:
    """Remembers when it led; `lead` never ends by itself."""

    def __init__(self, kube: Kube, identity: str) -> None:
        self.election = LeaderElection(kube, "ns", "kubenode", identity, TTL, DEADLINE, RETRY)
        self.started = self.stopped = 0.0

    async def lead(self) -> None:
        self.started = time.monotonic()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped = time.monotonic()

    async def run(self) -> None:
        await self.election.run(self.lead)


def holder(server: FakeKube) -> str:
    return str(server.objects[LEASES]["kubenode"]["spec"]["holderIdentity"])


async def test_leads_on_a_fresh_cluster_and_releases_at_a_clean_exit(
    server: FakeKube, lease_kube: Kube
) -> None:
    one = Candidate(lease_kube, "one")
    async with running(one.run()):
        await until(lambda: one.election.leading)
        assert holder(server) == "one"
        assert one.election.check() > 0
    assert holder(server) == ""
    with pytest.raises(LeaseLost):
        one.election.check()


async def test_handover_after_a_clean_exit_does_not_wait_out_the_ttl(
    server: FakeKube, lease_kube: Kube
) -> None:
    one, two = Candidate(lease_kube, "one"), Candidate(lease_kube, "two")
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(one.run())
        await until(lambda: one.election.leading)
        epoch = one.election.check()
        second = tasks.create_task(two.run())
        await asyncio.sleep(3 * RETRY)
        assert not two.election.leading
        first.cancel()
        await until(lambda: two.started > 0)
        assert two.started - one.stopped < TTL / 2
        assert two.election.check() > epoch
        second.cancel()


@pytest.mark.parametrize(
    "fault",
    [reset, hang, answer(status(500, "InternalError"))],
    ids=["reset", "hang", "500"],
)
async def test_a_cut_off_leader_stops_before_another_may_start(
    server: FakeKube, lease_kube: Kube, fault: Fault
) -> None:
    one, two = Candidate(lease_kube, "one"), Candidate(lease_kube, "two")

    async def cut_off() -> None:
        with pytest.raises(ExceptionGroup) as caught:
            await one.run()
        assert caught.group_contains(LeaseLost)

    async with running(cut_off()):
        await until(lambda: one.election.leading)
        async with running(two.run()):
            await asyncio.sleep(0.3)
            began = time.monotonic()
            server.faults.append(fault)
            await until(lambda: one.stopped > 0)
            assert one.stopped - began < TTL
            server.faults.clear()
            await until(lambda: two.started > 0)
            assert two.started > one.stopped
            with pytest.raises(LeaseLost):
                one.election.check()


async def test_a_lease_taken_by_hand_stops_the_leader_at_its_next_look(
    server: FakeKube, lease_kube: Kube
) -> None:
    one = Candidate(lease_kube, "one")

    async def robbed() -> None:
        with pytest.raises(ExceptionGroup) as caught:
            await one.run()
        assert caught.group_contains(LeaseLost, match="taken by a person")

    async with running(robbed()):
        await until(lambda: one.election.leading)
        lease = server.objects[LEASES]["kubenode"]
        server.put(LEASES, {**lease, "spec": {**lease["spec"], "holderIdentity": "a person"}})
        began = time.monotonic()
        await until(lambda: one.stopped > 0)
        assert one.stopped - began < DEADLINE, "it did not wait for its own time to be over"
    assert holder(server) == "a person"


async def test_a_deleted_lease_is_made_anew_under_a_higher_epoch(
    server: FakeKube, lease_kube: Kube
) -> None:
    one = Candidate(lease_kube, "one")
    async with running(one.run()):
        await until(lambda: one.election.leading)
        before = one.election.check()
        server.remove(LEASES, "kubenode")
        await until(lambda: one.election.check() > before)
        assert holder(server) == "one"


async def test_a_blocked_loop_is_seen_by_the_fence_before_any_cancel(
    server: FakeKube, lease_kube: Kube
) -> None:
    one = Candidate(lease_kube, "one")

    async def blocked() -> None:
        with pytest.raises(ExceptionGroup):
            await one.run()

    async with running(blocked()):
        await until(lambda: one.election.leading)
        time.sleep(DEADLINE + 0.05)  # noqa: ASYNC251  that is the fault
        assert one.stopped == 0, "nobody could cancel it yet"
        with pytest.raises(LeaseLost):
            one.election.check()
        await until(lambda: one.stopped > 0)


async def test_of_two_candidates_one_leads(server: FakeKube, lease_kube: Kube) -> None:
    many = [Candidate(lease_kube, f"c{i}") for i in range(5)]
    async with asyncio.TaskGroup() as tasks:
        runs = [tasks.create_task(each.run()) for each in many]
        for _ in range(30):
            assert sum(each.election.leading for each in many) <= 1
            await asyncio.sleep(0.01)
        await until(lambda: sum(each.election.leading for each in many) == 1)
        for run in runs:
            run.cancel()


async def test_the_lease_is_kept_while_the_leader_winds_down(
    server: FakeKube, lease_kube: Kube
) -> None:
    election = LeaderElection(lease_kube, "ns", "kubenode", "one", TTL, DEADLINE, RETRY)
    checked = []

    async def lead() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(DEADLINE * 1.5)  # a reconcile that is allowed to finish
            checked.append(election.check())

    async with running(election.run(lead)):
        await until(lambda: election.leading)
    assert checked
    assert holder(server) == ""
