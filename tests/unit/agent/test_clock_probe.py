"""The probe `clock`: who keeps the clock is asked, for the kernel does not know under chrony."""

from pathlib import Path
from typing import Any, cast

import pytest

from agent.host import HostError
from agent.host.ports import TimeState
from agent.host.real.clock import of_ntpd
from agent.probes import Answer, readings
from agent.probes.host import HostProbes

CHRONY = "chronyd.service"
KERNEL_ZERO: Answer = {"synchronized": True, "offset_s": 0.0}
PEERS = """\
     remote           refid      st t when poll reach   delay   offset  jitter
==============================================================================
*192.0.2.1       .GPS.            1 u   33   64  377    0.412   -3.105   0.200
 192.0.2.2       .INIT.          16 u    -   64    0    0.000    0.000   0.000
"""


class Keeper:
    """Implements TimeService as far as a probe asks."""

    def __init__(self, state: TimeState | None) -> None:
        self._state = state

    async def moved_since_boot(self) -> float:
        raise HostError("systemd does not tell when it started")

    async def state(self) -> TimeState:
        if self._state is None:
            raise HostError("506 Cannot talk to daemon")
        return self._state


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings, "clock", lambda: dict(KERNEL_ZERO))


async def clock(tmp_path: Path, state: TimeState | None) -> Answer:
    nowhere = cast(Any, None)
    probes = HostProbes(nowhere, str(tmp_path), time=cast(Any, Keeper(state)))
    return await probes.answer("clock")


@pytest.mark.parametrize("ahead", [-7200.0, 0.3])
async def test_offset_is_what_chrony_says_when_chrony_keeps_the_clock(
    ahead: float, kernel: None, tmp_path: Path
) -> None:
    said = await clock(tmp_path, TimeState(CHRONY, ahead, True, 3))
    assert said == {"synchronized": True, "offset_s": abs(ahead)}


async def test_clock_is_not_synchronized_when_chrony_has_no_source(
    kernel: None, tmp_path: Path
) -> None:
    assert await clock(tmp_path, TimeState(CHRONY, None, False, 0)) == {"synchronized": False}


async def test_offset_of_zero_is_unknown_when_the_daemon_does_not_answer(
    kernel: None, tmp_path: Path
) -> None:
    assert await clock(tmp_path, None) == {"synchronized": True}


async def test_kernel_is_believed_when_the_daemon_lets_the_kernel_slew(
    kernel: None, tmp_path: Path
) -> None:
    state = TimeState("systemd-timesyncd.service", 0.0, True, 1)
    assert await clock(tmp_path, state) == KERNEL_ZERO


@pytest.mark.parametrize(
    ("variables", "offset", "synchronised"),
    [
        ("leap=00, offset=-3.105", -0.003105, True),
        ("associd=0 status=0615 leap_none, sync_ntp,\nleap=00, offset=7200000.0", 7200.0, True),
        ("leap=11, offset=0.000", None, False),
        ("associd=0 status=c016 leap_alarm, sync_unspec", None, False),
    ],
)
def test_offset_is_what_ntpd_says(variables: str, offset: float | None, synchronised: bool) -> None:
    state = of_ntpd("ntp.service", variables, PEERS)
    assert (state.offset, state.synchronised, state.reachable) == (offset, synchronised, 1)


def test_ntpq_that_tells_nothing_is_an_error() -> None:
    with pytest.raises(HostError, match="tells nothing"):
        of_ntpd("ntp.service", "ntpq: read: Connection refused", PEERS)
