"""Services that do not answer, and units that fall over again and again."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from support.clock import FakeClock, settle
from support.watched import Heard

from agent.detectors import NOT_LOOKED_AT, ReportedStatus
from agent.detectors.checks import CANNOT_RUN
from agent.detectors.checks.detector import Turns
from agent.detectors.checks.npd.log_counter import Counter, Tally, argv, read
from agent.detectors.checks.services import cri, health
from agent.detectors.checks.services.bus import path
from agent.detectors.checks.services.restarts import Restarts
from agent.detectors.checks.services.units import RestartCallback, UnitFlaps
from agent.host import HostUnreachable, NoSuchUnit, Unit
from agent.host.files import HostRoot
from agent.host.systemd import SystemdHost
from agent.probes import CannotAnswer

KUBELET = "kubelet.service"


# ---- health


class Kubelet(SystemdHost):
    """A host whose kubelet answers as the test says."""

    def __init__(self, unit: Unit | Exception, ok: bool = False) -> None:
        super().__init__("unix:path=/nowhere")
        self.told, self.ok = unit, ok

    async def unit(self, name: str) -> Unit:
        if isinstance(self.told, Exception):
            raise self.told
        return self.told

    async def ask(self) -> health.HealthAnswer:
        return health.HealthAnswer(
            self.ok, "GET /healthz: 200" if self.ok else "GET /healthz: refused"
        )

    def service(self) -> health.MonitoredService:
        kinds = "KubeletUnhealthy", "KubeletUnhealthy", "KubeletIsHealthy"
        return health.MonitoredService(*kinds, "kubelet", KUBELET, self.ask)


def active(invocation: str = "a1") -> Unit:
    return Unit(KUBELET, "active", "running", invocation=invocation)


async def found(check: health.ServiceHealthCheck) -> tuple[bool | None, str]:
    finding = (await check.inspect())["KubeletUnhealthy"]
    return finding.faulty, finding.reason


async def test_a_service_that_answers_is_well_whatever_its_unit() -> None:
    host = Kubelet(NoSuchUnit("no"), ok=True)
    check = health.ServiceHealthCheck(host.service(), host, FakeClock(), 60)
    assert await found(check) == (False, "KubeletIsHealthy")


async def test_a_failed_service_is_a_fault_at_once_and_says_what_was_asked() -> None:
    host = Kubelet(Unit(KUBELET, "failed", "failed", result="exit-code", exit_status=1))
    check = health.ServiceHealthCheck(host.service(), host, FakeClock(), 60)
    finding = (await check.inspect())["KubeletUnhealthy"]
    assert (finding.faulty, finding.reason) == (True, "KubeletUnhealthy")
    assert "GET /healthz: refused; kubelet.service is failed" in finding.message


async def test_a_service_that_has_just_started_has_its_time() -> None:
    clock, host = FakeClock(), Kubelet(active())
    check = health.ServiceHealthCheck(host.service(), host, clock, 60)
    assert await found(check) == (None, health.STARTING)
    clock.step(timedelta(seconds=61))
    assert await found(check) == (True, "KubeletUnhealthy")


async def test_a_service_that_starts_again_and_again_has_no_more_time() -> None:
    clock, host = FakeClock(), Kubelet(active())
    check = health.ServiceHealthCheck(host.service(), host, clock, 60)
    for number in range(7):
        host.told = active(f"a{number}")
        assert await found(check) == (None, health.STARTING) or number == 6
        clock.step(timedelta(seconds=10))
    assert await found(check) == (True, "KubeletUnhealthy")


async def test_a_service_that_hangs_after_it_answered_is_a_fault_at_once() -> None:
    clock, host = FakeClock(), Kubelet(active("a1"), ok=True)
    check = health.ServiceHealthCheck(host.service(), host, clock, 60)
    assert await found(check) == (False, "KubeletIsHealthy")
    host.ok = False
    assert await found(check) == (True, "KubeletUnhealthy")
    host.told = active("b2")  # somebody starts it again
    assert await found(check) == (None, health.STARTING)


async def test_where_there_is_no_kubelet_none_is_missed() -> None:
    host = Kubelet(NoSuchUnit("no"))
    check = health.ServiceHealthCheck(host.service(), host, FakeClock(), 60)
    assert await found(check) == (None, health.NO_SERVICE)


async def test_a_silent_service_manager_leaves_it_unknown() -> None:
    host = Kubelet(HostUnreachable("no bus"))
    with pytest.raises(CannotAnswer, match="no bus"):
        await health.ServiceHealthCheck(host.service(), host, FakeClock(), 60).inspect()


def test_the_runtime_is_the_one_that_is_installed(tmp_path: Path) -> None:
    assert health.which_runtime(root=str(tmp_path)).unit == "containerd.service"
    (tmp_path / "run/crio").mkdir(parents=True)
    (tmp_path / "run/crio/crio.sock").touch()
    assert health.which_runtime(root=str(tmp_path)).reason == "CrioUnhealthy"
    assert health.which_runtime("/run/other.sock").socket == "/run/other.sock"


# ---- CRI


def frame(kind: int, flags: int, payload: bytes, stream: int = 1) -> bytes:
    head = len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4)
    return head + payload


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return bytes((number << 3, value))
    return bytes((number << 3 | 2, len(value))) + value


def runtime_ready(ok: bool) -> bytes:
    words = field(1, b"RuntimeReady") + (field(2, 1) if ok else field(3, b"Down"))
    network = field(1, b"NetworkReady") + field(3, b"NoCNI") + field(4, b"not initialized")
    return field(1, field(1, words) + field(1, network)) + field(2, b"")


def answer(message: bytes) -> bytes:
    body = b"\0" + len(message).to_bytes(4) + message
    return (
        frame(4, 0, b"", 0)
        + frame(6, 0, bytes(8), 0)
        + frame(1, 4, b"\x88")
        + frame(0, 0, body[:7])
        + frame(0, 0, body[7:])
        + frame(1, 5, b"")
    )


async def asked(folder: Path, said: bytes | None, seconds: float = 10.0) -> health.HealthAnswer:
    """What a runtime that says so is taken for; None: it is silent."""
    socket = str(folder / "cri.sock")
    done = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(24)
        if said is None:
            await done.wait()
        else:
            writer.write(said)
        writer.close()

    async with await asyncio.start_unix_server(serve, socket):
        try:
            return await health.runtime(socket, seconds)()
        finally:
            done.set()


async def test_a_runtime_is_asked_by_its_own_api(tmp_path: Path) -> None:
    assert (await asked(tmp_path, answer(runtime_ready(True)))).ok


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (answer(runtime_ready(False)), "RuntimeReady is false: Down"),
        (frame(4, 0, b"", 0) + frame(1, 5, b"\x88"), "answered with an error"),
        (frame(7, 0, b"", 0), "refused"),
        (b"HTTP/1.1 400 Bad Request", "no HTTP/2 is spoken"),
        (b"", "hung up"),
        (answer(b"\x0a\x7f"), "cut off"),
        (answer(b"\xff" * 12), "cut off"),
    ],
)
async def test_every_other_answer_of_a_runtime_is_none(
    tmp_path: Path, said: bytes, why: str
) -> None:
    heard = await asked(tmp_path, said)
    assert not heard.ok
    assert why in heard.message


async def test_a_silent_or_missing_runtime_is_told_so(tmp_path: Path) -> None:
    assert "no answer within 0.05 s" in (await asked(tmp_path, None, 0.05)).message
    missing = await health.runtime(str(tmp_path / "none.sock"), 1.0)()
    assert "No such file" in missing.message


def test_conditions_of_a_runtime_have_their_reasons() -> None:
    network = cri.ready(runtime_ready(True))[1]
    assert network == cri.Ready("NetworkReady", False, "NoCNI: not initialized")


# ---- restarts


def test_restarts_are_counted_within_their_time_and_forgotten() -> None:
    unit = Restarts(limit=5, within=1200)
    unit.record(1, 0.0)
    assert unit.count_recent(0.0) == 0  # when the first one was nobody knows
    for number in range(2, 7):
        unit.record(number, number * 100.0)
    assert (unit.count_recent(600.0), unit.flapping) == (5, True)
    assert unit.next(600.0) == 1400.0
    assert (unit.count_recent(1400.0), unit.flapping) == (4, True)
    assert (unit.count_recent(1600.0), unit.flapping) == (2, False)


def test_a_start_on_purpose_begins_the_count_anew() -> None:
    unit = Restarts(limit=2, within=1200)
    unit.record(3, 0.0)
    unit.record(0, 10.0)
    unit.record(1, 20.0)
    assert unit.count_recent(30.0) == 1


def test_a_long_history_before_the_first_look_is_not_called_well() -> None:
    unit = Restarts(limit=5, within=1200)
    unit.record(9, 100.0)
    assert not unit.sure(101.0)
    assert unit.sure(1300.0)
    assert unit.next(101.0) == 1300.0


class Bus:
    """Implements Listener: the test says what systemd says."""

    def __init__(self) -> None:
        self.seen: RestartCallback | None = None
        self.gone = asyncio.Event()
        self.first = 0

    async def listen(
        self, units: Sequence[str], on_restarts: RestartCallback, ready: Callable[[], None]
    ) -> None:
        self.seen = on_restarts
        for unit in units:
            on_restarts(unit, self.first)
            await asyncio.sleep(0)
        ready()
        await self.gone.wait()
        raise CannotAnswer("the system bus went away")


async def test_a_unit_that_flaps_is_told_at_once_and_cleared_in_time() -> None:
    clock, bus, heard = FakeClock(), Bus(), Heard()
    units = UnitFlaps([KUBELET, "crio.service"], 5, 1200, bus, Turns(clock))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(units.run(heard))
        await settle()
        assert bus.seen is not None
        for number in range(1, 6):
            bus.seen(KUBELET, number)
            await clock.advance(timedelta(seconds=10))
        assert heard.last("FrequentKubeletRestart").status is ReportedStatus.TRUE
        assert heard.last("FrequentUnitRestart").status is ReportedStatus.FALSE
        for _ in range(5):
            await clock.advance(timedelta(seconds=400))
        running.cancel()
    assert heard.history("FrequentKubeletRestart") == [
        (ReportedStatus.UNKNOWN, NOT_LOOKED_AT),
        (ReportedStatus.FALSE, "NoFrequentKubeletRestart"),
        (ReportedStatus.TRUE, "FrequentKubeletRestart"),
        (ReportedStatus.FALSE, "NoFrequentKubeletRestart"),
    ]
    assert heard.events == []


async def test_what_happened_while_the_bus_was_away_is_counted_afterwards() -> None:
    clock, bus, heard = FakeClock(), Bus(), Heard()
    units = UnitFlaps([KUBELET], 5, 1200, bus, Turns(clock))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(units.run(heard))
        await settle()
        bus.gone.set()
        await settle()
        assert heard.last("FrequentKubeletRestart").reason == CANNOT_RUN
        assert [event.reason for event in heard.events] == [CANNOT_RUN]
        bus.gone, bus.first = asyncio.Event(), 6
        await clock.advance(timedelta(seconds=40))
        assert heard.last("FrequentKubeletRestart").status is ReportedStatus.TRUE
        running.cancel()


def test_object_paths_of_units_are_escaped_as_systemd_does() -> None:
    root = "/org/freedesktop/systemd1/unit/"
    assert path("kubelet.service") == f"{root}kubelet_2eservice"
    assert path("cri-docker.service") == f"{root}cri_2ddocker_2eservice"
    assert path("9p.service") == f"{root}_39p_2eservice"


# ---- log-counter


FLAGS = {
    "journald-source": "systemd",
    "lookback": "20m",
    "delay": "5m",
    "count": "5",
    "pattern": "Started (Kubernetes kubelet|kubelet.service|kubelet.service - .*).",
    "revert-pattern": "Stopping (Kubernetes kubelet|kubelet.service|kubelet.service - .*)...",
}


def test_lines_count_up_and_stops_on_purpose_count_down() -> None:
    tally = Tally(read(FLAGS))
    for _ in range(4):
        tally.line("Started kubelet.service - The Kubernetes Node Agent.")
    tally.line("Stopping kubelet.service - The Kubernetes Node Agent...")
    tally.line("Started Network Time Synchronization.")
    assert tally.matches == 3


def test_only_lines_of_the_true_writer_are_read() -> None:
    counter = read(FLAGS)
    assert "_PID=1" in argv(counter, 100.0, HostRoot())
    kernel = Counter("kernel", 60, 0, 1, "x")
    assert argv(kernel, 100.0, HostRoot())[-2:] == ["--since=@100", "_TRANSPORT=kernel"]
    docker = Counter("dockerd", 60, 0, 1, "x")
    assert "_COMM=dockerd" in argv(docker, 100.0, HostRoot())


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"pattern": ""}, "needs --pattern"),
        ({"count": "many"}, "--count=many: give 1 or more"),
        ({"lookback": "soon"}, "no duration"),
    ],
)
def test_a_counter_that_makes_no_sense_says_why(change: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read(FLAGS | change)


def test_a_pattern_that_re2_does_not_take_says_so() -> None:
    with pytest.raises(ValueError, match="log-counter"):
        Tally(read(FLAGS | {"pattern": "(?=x"}))
