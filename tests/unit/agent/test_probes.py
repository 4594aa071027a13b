"""What a host says of itself: every reading on files of known content, and hosts that hang."""

import asyncio
import contextlib
import threading
from pathlib import Path

import pytest

from agent.host import HostUnreachable, NoSuchUnit, Unit, UnitVerb
from agent.patience import Patience
from agent.probes import CannotAnswer, readings, services
from agent.probes.host import HostProbes
from remedy.hostprobes.answering import ready
from rules.probes import NOT_ANSWERED, PROBES


class Units:
    """A Host with the given states of units."""

    def __init__(self, active: dict[str, str], *, reachable: bool = True) -> None:
        self._active, self._reachable = active, reachable

    def boot_id(self) -> str:
        return "boot-1"

    async def unit(self, name: str) -> Unit:
        if not self._reachable:
            raise HostUnreachable("no answer from systemd")
        if name not in self._active:
            raise NoSuchUnit(name)
        return Unit(name, self._active[name])

    async def reset_failed(self, name: str) -> None:
        raise AssertionError("a question changes nothing")

    async def unit_job(self, verb: UnitVerb, name: str, timeout: float) -> None:  # noqa: ASYNC109
        raise AssertionError("a question changes nothing")

    async def reboot(self) -> None:
        raise AssertionError("a question changes nothing")


def put(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def a_task(root: Path, pid: int, state: str, name: str = "cat", started: int = 5) -> None:
    fields = " ".join(["0"] * 18 + [str(started)] + ["0"] * 30)
    put(root, f"proc/{pid}/stat", f"{pid} ({name}) {state} {fields}\n")


def test_the_kernel_tells_limits_and_counts(tmp_path: Path) -> None:
    put(tmp_path, "proc/sys/kernel/pid_max", "4194304\n")
    put(tmp_path, "proc/sys/fs/inotify/max_user_watches", "8192\n")
    put(tmp_path, "proc/cpuinfo", "flags\t: fpu hypervisor lm\n")
    put(tmp_path, "sys/fs/cgroup/cgroup.stat", "nr_descendants 312\nnr_dying_descendants 9\n")
    put(tmp_path, "run/netns/cni-1", "")
    assert readings.kernel(str(tmp_path)) == {
        "platform": "vm",
        "pid_max": 4194304,
        "inotify_watches_max": 8192,
        "cgroup_count": 312,
        "netns_count_high": False,
    }


def test_what_a_kernel_does_not_tell_is_left_out(tmp_path: Path) -> None:
    put(tmp_path, "proc/sys/kernel/pid_max", "many\n")
    assert readings.kernel(str(tmp_path)) == {"platform": "bare_metal"}


def test_cgroups_of_version_one_are_counted_too(tmp_path: Path) -> None:
    put(tmp_path, "proc/cgroups", "#subsys_name hierarchy num_cgroups enabled\nmemory 9 77 1\n")
    assert readings.kernel(str(tmp_path))["cgroup_count"] == 77


def test_many_network_namespaces_are_told(tmp_path: Path) -> None:
    (tmp_path / "run/netns").mkdir(parents=True)
    for number in range(readings.MANY_NAMESPACES):
        (tmp_path / f"run/netns/cni-{number}").touch()
    assert readings.kernel(str(tmp_path))["netns_count_high"] is False
    (tmp_path / "run/netns/one-more").touch()
    assert readings.kernel(str(tmp_path))["netns_count_high"] is True


def test_a_task_that_stays_in_the_kernel_hangs(tmp_path: Path) -> None:
    a_task(tmp_path, 1, "S")
    assert not readings.hangs_in_kernel(str(tmp_path), 0)
    a_task(tmp_path, 7, "D", "tricky) R (name")
    assert readings.hangs_in_kernel(str(tmp_path), 0)


def test_a_name_that_looks_like_a_state_is_none(tmp_path: Path) -> None:
    a_task(tmp_path, 7, "S", "x) D 1 (y")
    assert not readings.hangs_in_kernel(str(tmp_path), 0)


def test_writing_is_tried_and_leaves_nothing(tmp_path: Path) -> None:
    assert readings.write(str(tmp_path)) == {"write_test": "ok", "write_test_path": str(tmp_path)}
    assert list(tmp_path.iterdir()) == []


def test_the_disk_of_the_images_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "var/lib/containerd").mkdir(parents=True)
    said = readings.disk(str(tmp_path))
    assert set(said) >= {"used_pct", "space_ok"}
    assert 0 <= float(said["used_pct"]) <= 100


def test_this_machine_has_a_clock() -> None:
    try:
        said = readings.clock()
    except PermissionError as error:
        pytest.skip(f"this sandbox lets nobody ask about the clock: {error}")
    assert (said["synchronized"] is True) == ("offset_s" in said)


@pytest.mark.parametrize(
    ("units", "state"),
    [
        ({}, None),
        ({services.KUBELET: "failed"}, "stopped"),
        ({services.KUBELET: "activating"}, "stopped"),
    ],
)
async def test_a_kubelet_that_does_not_run(units: dict[str, str], state: str | None) -> None:
    assert await services.kubelet(Units(units)) == state


@pytest.mark.parametrize(
    ("units", "state"),
    [
        ({}, None),
        ({"containerd.service": "failed", "crio.service": "active"}, "error"),
        ({"crio.service": "inactive"}, "error"),
    ],
)
async def test_a_runtime_that_does_not_run(units: dict[str, str], state: str | None) -> None:
    assert await services.runtime(Units(units)) == state


@pytest.mark.parametrize(
    ("units", "state"),
    [
        ({}, None),
        ({"chronyd.service": "failed"}, "failed"),
        ({"chronyd.service": "failed", "systemd-timesyncd.service": "active"}, "active"),
        ({"ntp.service": "inactive", "ntpd.service": "failed"}, "failed"),
        ({"chrony.service": "deactivating"}, "inactive"),
    ],
)
async def test_one_time_daemon_that_runs_is_enough(
    units: dict[str, str], state: str | None
) -> None:
    assert await services.time_daemon(Units(units)) == state


async def serve(path: Path, words: bytes | None) -> asyncio.Server:
    """A runtime's socket: answers with `words`, or never when None."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(64)
        if words is None:
            await reader.read()  # until the other side has had enough
        writer.write(words or b"")
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    return await asyncio.start_unix_server(talk, path)


@pytest.mark.parametrize(
    ("words", "state"), [(b"\0\0\0\4\0\0\0\0\0", "ok"), (b"", "hung"), (None, "hung")]
)
async def test_a_runtime_that_runs_must_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: bytes | None, state: str
) -> None:
    socket = tmp_path / "containerd.sock"
    monkeypatch.setattr(services, "RUNTIMES", (("containerd.service", str(socket)),))
    if words is None:
        monkeypatch.setattr(services, "ANSWER_SECONDS", 0.05)
    units = Units({"containerd.service": "active"})
    assert await services.runtime(units) == "hung"  # nobody listens
    server = await serve(socket, words)
    try:
        assert await services.runtime(units) == state
    finally:
        server.close()
        await server.wait_closed()
        await asyncio.sleep(0)  # the talks end


async def test_a_host_that_cannot_be_asked_is_no_answer(tmp_path: Path) -> None:
    probes = HostProbes(Units({}, reachable=False), str(tmp_path))
    with pytest.raises(CannotAnswer, match="no answer from systemd"):
        await probes.answer("host")


async def test_a_question_that_is_not_for_hosts_names_those_that_are(tmp_path: Path) -> None:
    probes = HostProbes(Units({}), str(tmp_path))
    with pytest.raises(CannotAnswer, match="answers clock, disk, host, peers, write, not power"):
        await probes.answer("power")


async def test_reads_that_hang_cost_a_bounded_number_of_threads() -> None:
    patience, free = Patience(2), threading.Event()
    for _ in range(2):
        with pytest.raises(CannotAnswer, match=r"no answer within 0\.01 s"):
            await patience.wait_for(free.wait, 0.01, "disk")
    with pytest.raises(CannotAnswer, match="2 earlier looks"):
        await patience.wait_for(lambda: True, 0.01, "disk")
    free.set()
    async with asyncio.timeout(5):
        while True:  # the threads end when the disk answers again
            try:
                assert await patience.wait_for(lambda: True, 5, "disk")
                break
            except CannotAnswer:
                await asyncio.sleep(0)


async def test_a_read_that_fails_says_why() -> None:
    def broken() -> None:
        raise OSError(5, "Input/output error")

    with pytest.raises(CannotAnswer, match="disk: Input/output error"):
        await Patience().wait_for(broken, 5, "disk")


async def test_what_nobody_answers_is_said_in_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every field of the catalogue is answered here, by the operator, or named as unknown."""
    put(tmp_path, "proc/sys/kernel/pid_max", "1\n")
    put(tmp_path, "proc/sys/fs/inotify/max_user_watches", "1\n")
    put(tmp_path, "sys/fs/cgroup/cgroup.stat", "nr_descendants 1\n")
    (tmp_path / "run/netns").mkdir(parents=True)
    monkeypatch.setattr(readings, "clock", lambda: {"synchronized": True, "offset_s": 0.0})
    units = ("kubelet.service", "containerd.service", "chronyd.service")
    probes = HostProbes(Units(dict.fromkeys(units, "failed")), str(tmp_path), str(tmp_path))
    said = {f"{n}.{f}" for n in ("host", "clock", "disk", "write") for f in await probes.answer(n)}
    said |= {f"ready.{field}" for field in ready({"status": {}}, [])}
    said |= {"power.cloud_state", "peers.reachable"}  # the operator's desk
    assert said | NOT_ANSWERED | {"disk.inodes_used_pct"} == set(PROBES)
    assert not said & NOT_ANSWERED
