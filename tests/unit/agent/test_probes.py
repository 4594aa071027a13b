"""What a host says of itself: every reading on files of known content, and hosts that hang."""

import asyncio
import contextlib
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from support.clock import T0

from agent.host import HostError, HostUnreachable, NoSuchUnit, Unit, UnitVerb
from agent.host.containers import Image
from agent.host.files import HostRoot
from agent.host.real.clock import moved
from agent.patience import Patience
from agent.probes import CannotAnswer, readings, services
from agent.probes.host import PRODUCED, HostProbes
from remedy.hostprobes.answer_writer import READY_PRODUCED, ready
from simulation.hosts.host import SimulatedHost


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
        mounted = HostRoot(str(tmp_path))
        monkeypatch.setattr(services, "RUNTIMES", (("containerd.service", "/run/a.sock"),))
        assert await services.runtime(units, mounted) == "hung"
        (tmp_path / "run").mkdir()
        (tmp_path / "run/a.sock").symlink_to("/containerd.sock")
        assert await services.runtime(units, mounted) == state
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
    with pytest.raises(
        CannotAnswer, match="answers clock, disk, host, mount, peers, write, not power"
    ):
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


async def test_work_beside_other_work_waits_for_its_turn() -> None:
    patience, free = Patience(1), threading.Event()
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(patience.wait_for(lambda: free.wait(5), 5, "disk"))
        await asyncio.sleep(0)
        second = tasks.create_task(patience.wait_for(lambda: "later", 5, "disk"))
        await asyncio.sleep(0.01)
        assert not second.done()
        free.set()
    assert (first.result(), second.result()) == (True, "later")


async def test_a_turn_that_does_not_come_in_time_is_no_answer() -> None:
    patience, free = Patience(1), threading.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(patience.wait_for(lambda: free.wait(5), 5, "disk"))
        await asyncio.sleep(0)
        with pytest.raises(CannotAnswer, match=r"no answer within 0\.01 s"):
            await patience.wait_for(lambda: "later", 0.01, "disk")
        free.set()
    assert await patience.wait_for(lambda: "next", 5, "disk") == "next"


async def test_a_read_that_fails_says_why() -> None:
    def broken() -> None:
        raise OSError(5, "Input/output error")

    with pytest.raises(CannotAnswer, match="disk: Input/output error"):
        await Patience().wait_for(broken, 5, "disk")


NETWORK_MOUNT = "9 1 0:50 / {point} rw - nfs4 10.0.0.1:/x rw\n"
ROOT_MOUNT = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
DATA_MOUNT = "7 1 8:16 / /var/lib/kubelet/pods/p/volumes/v rw - xfs /dev/sdb rw\n"


async def described_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Every field that a host answers which has all that is asked for."""
    put(tmp_path, "proc/sys/kernel/pid_max", "1\n")
    put(tmp_path, "proc/sys/fs/inotify/max_user_watches", "1\n")
    put(tmp_path, "sys/fs/cgroup/cgroup.stat", "nr_descendants 1\n")
    (tmp_path / "run/netns").mkdir(parents=True)
    (tmp_path / "mnt").mkdir()
    put(tmp_path, "proc/1/mountinfo", ROOT_MOUNT + NETWORK_MOUNT.format(point="/mnt"))
    monkeypatch.setattr(readings, "clock", lambda: {"synchronized": True, "offset_s": 0.0})
    units = ("kubelet.service", "containerd.service", "chronyd.service")
    ports = SimulatedHost().ports()
    probes = HostProbes(
        Units(dict.fromkeys(units, "failed")),
        str(tmp_path),
        str(tmp_path),
        time=ports.time,
        containers=ports.containers,
    )
    kinds = ("host", "clock", "disk", "write", "mount")
    return {f"{kind}.{field}" for kind in kinds for field in await probes.answer(kind)}


async def test_host_answers_every_field_that_it_declares_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = await described_answers(tmp_path, monkeypatch)
    assert said | {"disk.inodes_used_pct"} == set(PRODUCED)  # some file systems count no inodes


def test_operator_answers_every_field_of_ready_that_it_declares_and_no_other() -> None:
    assert {f"ready.{field}" for field in ready({"status": {}}, [], T0)} == set(READY_PRODUCED)


@pytest.mark.parametrize(
    ("table", "has"),
    [
        (ROOT_MOUNT, False),
        (ROOT_MOUNT + DATA_MOUNT, True),
        (ROOT_MOUNT + NETWORK_MOUNT.format(point="/mnt"), False),
        (ROOT_MOUNT + "8 1 8:1 /x /var/lib/kubelet/pods/p/subpath rw - ext4 /dev/sda1 rw\n", False),
        (ROOT_MOUNT + "5 1 8:3 / /var/lib/containerd rw - xfs /dev/sda3 rw\n", False),
    ],
)
def test_data_volumes_are_disks_of_neither_system_nor_images(
    tmp_path: Path, table: str, has: bool
) -> None:
    put(tmp_path, "proc/1/mountinfo", table)
    assert readings.has_data_volumes(str(tmp_path)) is has


async def test_mount_probe_is_false_when_one_network_mount_does_not_answer(tmp_path: Path) -> None:
    (tmp_path / "mnt").mkdir()
    here = ROOT_MOUNT + NETWORK_MOUNT.format(point="/mnt")
    probes = HostProbes(Units({}), str(tmp_path), str(tmp_path))
    put(tmp_path, "proc/1/mountinfo", here)
    assert await probes.answer("mount") == {"answers": True}
    put(tmp_path, "proc/1/mountinfo", here + NETWORK_MOUNT.format(point="/gone"))
    assert await probes.answer("mount") == {"answers": False}
    put(tmp_path, "proc/1/mountinfo", ROOT_MOUNT)
    assert await probes.answer("mount") == {}


async def test_unused_images_are_summed_and_unknown_when_the_runtime_does_not_tell(
    tmp_path: Path,
) -> None:
    class Runtime:
        def __init__(self, images: list[Image] | None) -> None:
            self._images = images

        async def unused_images(self) -> list[Image]:
            if self._images is None:
                raise HostError("crictl: no answer within 30 s")
            return self._images

    def probes(runtime: Runtime) -> HostProbes:
        return HostProbes(Units({}), str(tmp_path), str(tmp_path), containers=cast(Any, runtime))

    said = await probes(Runtime([Image("a", 3), Image("b", 4)])).answer("disk")
    assert said["images_unused_bytes"] == 7
    assert (await probes(Runtime([])).answer("disk"))["images_unused_bytes"] == 0
    assert "images_unused_bytes" not in await probes(Runtime(None)).answer("disk")


@pytest.mark.parametrize(("jump", "wrong"), [(0.0, False), (-30.0, False), (1.7e9, True)])
async def test_boot_clock_is_wrong_when_it_was_set_by_much_since_the_boot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: float, wrong: bool
) -> None:
    monkeypatch.setattr(readings, "clock", lambda: {"synchronized": True})
    host = SimulatedHost()
    host.time.moved = jump
    said = await HostProbes(Units({}), str(tmp_path), time=host.ports().time).answer("clock")
    assert said["boot_clock_wrong"] is wrong


def test_clock_that_moved_is_told_by_what_systemd_recorded_at_the_boot() -> None:
    started = {"UserspaceTimestamp": 7_000_000, "UserspaceTimestampMonotonic": 2_000_000}
    assert moved(started, now=105.0, monotonic=100.0) == 0.0
    assert moved(started, now=1_000_105.0, monotonic=100.0) == 1_000_000.0
    with pytest.raises(HostError, match="does not tell"):
        moved({}, now=105.0, monotonic=100.0)


def test_stuck_and_pending_pods_are_told_by_the_api_server() -> None:
    def pod(phase: str, **metadata: str) -> dict[str, Any]:
        return {"metadata": metadata, "status": {"phase": phase}}

    def ago(seconds: float) -> str:
        return (T0 - timedelta(seconds=seconds)).isoformat()

    pods = [
        pod("Running", deletionTimestamp=ago(61)),
        pod("Running", deletionTimestamp=ago(5)),
        pod("Succeeded", deletionTimestamp=ago(900)),
        pod("Pending", creationTimestamp=ago(700)),
        pod("Running", creationTimestamp=ago(9000)),
    ]
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": ago(20)}
    late = pod("Pending", creationTimestamp=ago(5000))
    late["status"]["conditions"] = [bound]
    said = ready({"status": {}}, [*pods, late], T0)
    assert said["pods_stuck_terminating"] == 1
    assert said["oldest_pending_s"] == 700.0
