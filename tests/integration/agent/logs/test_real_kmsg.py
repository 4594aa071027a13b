"""The kernel's own log of this machine, read only."""

import os

import pytest
from support.log_sources import Running

from agent.detectors.logs.kmsg import DEVICE, KmsgSource
from agent.detectors.logs.line import KERNEL
from kubenode.runtime.clock import SystemClock

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def readable() -> None:
    try:
        os.close(os.open(DEVICE, os.O_RDONLY | os.O_NONBLOCK))
    except OSError as error:
        pytest.skip(f"{DEVICE}: {error.strerror}")


async def test_what_the_kernel_has_said_is_read_to_its_end_and_not_again() -> None:
    clock = SystemClock()
    first = KmsgSource(clock)
    async with Running(first) as heard:
        await heard.until(said="kmsg caught up")
        said = [line for line in heard.told if line.origin == KERNEL]
    if not said:
        pytest.skip(f"{DEVICE} holds no line of the kernel")
    assert all(line.text for line in said)
    place = int(first.position)
    again = KmsgSource(clock)
    async with Running(again, str(place)) as heard:
        await heard.until(said="kmsg caught up")
        assert len(heard.told) <= int(again.position) - place
