"""Machines that wait for volumes to be detached share a list; that none is left is read anew."""

from datetime import timedelta

from support.clock import FakeClock
from support.defender_world import MemoryApi

from machine.machine.attachments import ATTACHMENTS, RECENT_SECONDS, Attachments


def a_site() -> tuple[MemoryApi, Attachments, FakeClock]:
    clock = FakeClock()
    api = MemoryApi(clock)
    api.readable.add(ATTACHMENTS)
    return api, Attachments(api), clock


def attach(api: MemoryApi, name: str, node: str) -> None:
    api.put(ATTACHMENTS, {"metadata": {"name": name}, "spec": {"nodeName": node}})


async def test_machines_that_wait_for_volumes_share_one_list_in_pages() -> None:
    api, attachments, clock = a_site()
    for n in range(700):
        attach(api, f"a{n}", f"n{n % 100}")
    assert [await attachments.count(f"n{n}") for n in range(100)] == [7] * 100
    assert api.lists[ATTACHMENTS] == [500, 500]
    clock.step(timedelta(seconds=RECENT_SECONDS))
    await attachments.count("n1")
    assert len(api.lists[ATTACHMENTS]) == 4


async def test_a_volume_that_was_attached_a_moment_ago_counts() -> None:
    api, attachments, _ = a_site()
    attach(api, "a1", "n1")
    assert await attachments.count("n1") == 1
    attach(api, "a2", "n2")
    assert await attachments.count("n2") == 1


async def test_an_api_server_that_knows_no_attachments_has_none() -> None:
    api, attachments, _ = a_site()
    api.readable.clear()
    assert await attachments.count("n1") == 0
