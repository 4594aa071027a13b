"""Each repair: what it needs, what speaks against it, what it does, how it proves it."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from support.agent_world import UNIT
from support.clock import T0
from support.repairs import LOST, MIB, a_host, a_step, answered, repaired, world_of

from agent.actions import CATALOGUE
from agent.actions.allowlist import AllowedScript, Repairs, complaints
from agent.actions.kernel import SYSCTLS
from agent.host import UnitVerb
from agent.host.ports import Certificate, Gpu, Module
from agent.host.storage import HostMount
from simulation.hosts.host import SimulatedHost

WHO = {"pid": "4711", "startTime": "99", "unit": "lost.service"}
SANDBOX = "a" * 64
Change = Callable[[SimulatedHost], object]


DONE: list[tuple[str, dict[str, str], str]] = [
    ("KillProcess", WHO, "process 4711 has ended"),
    ("KillProcess", {**WHO, "signal": "KILL"}, "process 4711 has ended"),
    ("CleanDisk", {"target": "logs"}, "removed /var/log/a.1"),
    ("CleanDisk", {"target": "images"}, "removed large, small"),
    ("CleanDisk", {"target": "exitedContainers"}, "removed c-old;"),
    ("CleanDisk", {"target": "journal"}, "removed journal"),
    ("CleanDisk", {"target": "crashDumps"}, "nothing of crashDumps may go"),
    ("SyncTime", {}, "slewed; chrony.service: offset +0.000000 s"),
    ("RestartNetwork", {}, "systemd-networkd.service restarted, the API server is reached"),
    ("RemountFilesystem", {"mountPoint": "/data"}, "/data took a write"),
    ("RemountFilesystem", {"mountPoint": "/"}, "/ took a write"),
    ("LoadModule", {"name": "vxlan"}, "vxlan is loaded, until the next boot"),
    ("ReloadModule", {"name": "mlx5-ib"}, "mlx5_ib was taken out and loaded again"),
    ("SetSysctl", {"name": "kernel.pid_max", "value": "4194304"}, "is 4194304, was 32768"),
    ("SetSysctl", {"name": "fs.file-max", "factor": "2"}, "is 2000000, was 1000000"),
    ("SetSysctl", {"name": "fs.file-max", "value": "1000000"}, "was 1000000 before"),
    ("DeleteSandbox", {"id": SANDBOX}, f"gone: {SANDBOX}"),
    ("DeleteSandbox", {"state": "error"}, f"gone: {SANDBOX}"),
    ("DeleteSandbox", {"id": "e" * 64}, "there is none that has ended"),
    ("ResetGPU", {}, "reset, and answers: GPU-1, GPU-2"),
    ("ResetGPU", {"gpu": "1"}, "reset, and answers: GPU-2"),
    ("RunScript", {"device": "eth0"}, "script fix"),
]


def short(value: object) -> str | None:
    """An id that is the same in every process: a function is called by its name."""
    return None if callable(value) else str(value)[:40]


@pytest.mark.parametrize(("action", "params", "told"), DONE, ids=short)
async def test_a_repair_is_done_and_its_proof_is_told(
    tmp_path: Path, action: str, params: dict[str, str], told: str
) -> None:
    answer = await repaired(tmp_path / "j", a_host(), action, **params)
    assert (answer.state, answer.code) == ("Done", 0), answer
    assert told in answer.output


def test_every_repair_has_a_case_that_works_and_one_that_is_refused() -> None:
    of_units = {verb.value for verb in UnitVerb}
    own_files = {"RunCheck", "Reboot", "CollectDiagnostics", "RepairComponent", "ApproveEvent"}
    repairs = set(CATALOGUE) - of_units - own_files
    assert {action for action, _, _ in DONE} == repairs - {"RenewCertificate"}
    assert {action for action, *_ in REFUSED} == repairs


def _no(host: SimulatedHost) -> None:
    return


def _process(**changes: str | int) -> Change:
    def change(host: SimulatedHost) -> None:
        host.processes.processes[LOST.pid] = replace(LOST, **changes)  # type: ignore[arg-type]

    return change


def _mount(**changes: str | bool) -> Change:
    def change(host: SimulatedHost) -> None:
        before = HostMount("/data", "/dev/vdb", "ext4", True, False)
        host.filesystems.mounts["/data"] = replace(before, **changes)  # type: ignore[arg-type]

    return change


def _gpu(**changes: bool | int) -> Change:
    def change(host: SimulatedHost) -> None:
        gpu = Gpu("GPU-1", 0, 0, False, True)
        host.gpus.known = [replace(gpu, **changes)]  # type: ignore[arg-type]

    return change


def _valid(since: int, until: int, *, bootstrap: bool = True) -> Change:
    def change(host: SimulatedHost) -> None:
        days = timedelta(days=1)
        host.certificate.current = Certificate(T0 + since * days, T0 + until * days)
        host.certificate.bootstrap = bootstrap

    return change


def _set(*path: str, to: object) -> Change:
    def change(host: SimulatedHost) -> None:
        what: object = host
        for name in path[:-1]:
            what = getattr(what, name)
        setattr(what, path[-1], to)

    return change


DATA = {"mountPoint": "/data"}
REFUSED: list[tuple[str, dict[str, str], Change, str]] = [
    ("KillProcess", WHO, _process(unit="other.service"), "has unit other.service, not lost"),
    ("KillProcess", {**WHO, "exe": "/bin/x"}, _no, "has exe /usr/bin/lost, not /bin/x"),
    ("KillProcess", WHO, _process(exe="", unit=""), "is a thread of the kernel"),
    ("KillProcess", WHO, _process(unit="dbus.service"), "cannot do without"),
    ("KillProcess", {"pid": "4711", "startTime": "99"}, _no, "a PID alone names nobody"),
    ("KillProcess", {**WHO, "pid": "-1"}, _no, "params.pid '-1' does not fit"),
    ("CleanDisk", {"target": "imagesInUse"}, _no, "move the pods first"),
    ("CleanDisk", {"target": "/home"}, _no, "params.target '/home' does not fit"),
    ("CleanDisk", {"target": "logs", "path": "/home"}, _no, "params.path is unknown"),
    ("SyncTime", {}, _set("time", "sources", to=0), "no time source of chrony.service answers"),
    ("RestartNetwork", {}, _set("network", "unit", to=""), "nothing could be restarted"),
    ("RestartNetwork", {}, _set("network", "bond", to="bond0 has lost"), "bond0 has lost"),
    ("RestartNetwork", {"within": "1s"}, _no, "give 5 s to 300 s"),
    ("RestartNetwork", {"within": "2m"}, _no, "too short"),
    ("RemountFilesystem", {"mountPoint": "/home"}, _no, "is not in repairs.mount_points"),
    ("RemountFilesystem", DATA, _mount(meant_so=True), "read-only by configuration"),
    ("RemountFilesystem", DATA, _mount(type="btrfs"), "is btrfs"),
    (
        "RemountFilesystem",
        DATA,
        _set("filesystems", "damaged", to={"/data": "has counted 3 errors"}),
        "has counted 3 errors; it stays read-only",
    ),
    ("RemountFilesystem", DATA, _set("filesystems", "mounts", to={}), "nothing is mounted"),
    ("LoadModule", {"name": "floppy"}, _no, "is not in repairs.load_modules"),
    ("ReloadModule", {"name": "overlay"}, _no, "is not in repairs.reload_modules"),
    (
        "ReloadModule",
        {"name": "mlx5_ib"},
        _set("kernel", "modules", to={"mlx5_ib": Module("mlx5_ib", 2, ("rdma",))}),
        "is in use (2 times, by rdma)",
    ),
    ("ReloadModule", {"name": "mlx5_ib"}, _set("kernel", "modules", to={}), "use LoadModule"),
    ("SetSysctl", {"name": "kernel.core_pattern", "value": "1"}, _no, "none of those that may"),
    ("SetSysctl", {"name": "kernel.pid_max", "value": "1"}, _no, "a limit is only raised"),
    ("SetSysctl", {"name": "kernel.pid_max", "value": "9999999"}, _no, "is allowed"),
    (
        "SetSysctl",
        {"name": "net.netfilter.nf_conntrack_max", "factor": "4"},
        _set("kernel", "bytes", to=512 * MIB),
        "a tenth of the memory is allowed",
    ),
    ("SetSysctl", {"name": "fs.file-max"}, _no, "give one of params.value and params.factor"),
    ("DeleteSandbox", {"id": "b" * 64}, _no, "is ready: its pod runs"),
    ("DeleteSandbox", {"id": "c" * 64}, _no, "shares the host's network"),
    ("DeleteSandbox", {}, _no, "give one of params.id and params.state"),
    ("ResetGPU", {}, _gpu(users=2), "is used by 2 processes"),
    ("ResetGPU", {}, _gpu(divided=True), "is divided (MIG)"),
    ("ResetGPU", {}, _gpu(answers=False), "no reset reaches it"),
    ("ResetGPU", {"gpu": "7"}, _no, "no GPU 7 here"),
    ("RenewCertificate", {}, _valid(-5, 95), "too long for the kubelet to renew it"),
    ("RenewCertificate", {}, _valid(-95, -1, bootstrap=False), "there is no bootstrap kubeconfig"),
    ("RenewCertificate", {}, _set("certificate", "current", to=None), "renews itself"),
    ("RenewCertificate", {}, _set("time", "known", to=False), "SyncTime comes first"),
    ("RunScript", {"script": "other"}, _no, "script other is not in the agent's configuration"),
    ("RunScript", {"device": "eth0;reboot"}, _no, "one of eth0, eth1"),
    ("RunScript", {"speed": "1"}, _no, "params.speed is not listed"),
]


@pytest.mark.parametrize(("action", "params", "change", "why"), REFUSED, ids=short)
async def test_what_speaks_against_a_repair_refuses_it_with_a_sentence(
    tmp_path: Path, action: str, params: dict[str, str], change: Change, why: str
) -> None:
    host = a_host()
    change(host)
    answer = await repaired(tmp_path / "j", host, action, **params)
    assert (answer.state, answer.code) == ("Refused", None), answer
    assert why in answer.output


FAILED: list[tuple[str, dict[str, str], Change, str]] = [
    ("KillProcess", WHO, _set("processes", "stubborn", to={4711}), "still there"),
    (
        "CleanDisk",
        {"target": "logs"},
        _set("disks", "leaks", to=True),
        "the free space did not rise",
    ),
    ("SyncTime", {}, _set("time", "follows", to=False), "offset +0.400000 s after 60 s"),
    ("RestartNetwork", {}, _set("network", "cut", to=True), "were put back; it is reached"),
    ("RestartNetwork", {}, _set("network", "slow", to=True), "no end within 60 s"),
    (
        "RemountFilesystem",
        DATA,
        _set("filesystems", "refuses", to={"/data"}),
        "/data is read-only again",
    ),
    ("LoadModule", {"name": "wireguard"}, _no, "modprobe: module wireguard not found"),
    (
        "SetSysctl",
        {"name": "fs.file-max", "value": "2000000"},
        _set("kernel", "deaf", to=True),
        "set back to 1000000",
    ),
    ("DeleteSandbox", {"id": SANDBOX}, _set("containers", "stuck", to=True), "still there"),
    ("ResetGPU", {}, _set("gpus", "lost", to=True), "does not answer after its reset"),
    ("RunScript", {}, _set("scripts", "code", to=3), "exit status 3"),
    ("RunScript", {}, _set("scripts", "code", to=None), "ended after 60 s"),
]


@pytest.mark.parametrize(("action", "params", "change", "why"), FAILED, ids=short)
async def test_a_repair_without_proof_has_failed(
    tmp_path: Path, action: str, params: dict[str, str], change: Change, why: str
) -> None:
    host = a_host()
    change(host)
    answer = await repaired(tmp_path / "j", host, action, **params)
    assert answer.state == "Failed" and answer.code, answer
    assert why in answer.output


async def test_a_process_with_the_same_pid_and_another_start_is_not_touched(
    tmp_path: Path,
) -> None:
    host = a_host()
    answer = await repaired(tmp_path / "j", host, "KillProcess", **{**WHO, "startTime": "98"})
    assert answer.state == "Done" and "had ended before" in answer.output
    assert host.processes.sent == []


async def test_cleaning_stops_at_what_is_wanted_and_takes_the_budget_at_most(
    tmp_path: Path,
) -> None:
    enough = a_host()
    enough.disks.free = enough.disks.total // 5 - 200 * MIB
    await repaired(tmp_path / "a", enough, "CleanDisk", target="images")
    assert [image.name for image in enough.containers.images] == ["small"], "the largest first"
    poor = a_host()
    await repaired(tmp_path / "b", poor, "CleanDisk", target="images", most="100Mi")
    assert [image.name for image in poor.containers.images] == ["large"]
    rich = SimulatedHost()
    answer = await repaired(tmp_path / "c", rich, "CleanDisk", target="journal")
    assert "nothing had to go" in answer.output and rich.disks.journal > 256 * MIB


async def test_a_clock_far_off_is_set_at_once_but_never_beside_etcd(tmp_path: Path) -> None:
    far = a_host()
    far.time.offset = 3600.0
    answer = await repaired(tmp_path / "a", far, "SyncTime")
    assert answer.state == "Done" and far.time.steps == 1
    etcd = a_host()
    etcd.time.offset = 3600.0
    etcd.processes.programs.add("etcd")
    answer = await repaired(tmp_path / "b", etcd, "SyncTime")
    assert answer.state == "Failed" and etcd.time.steps == 0
    assert "not set at once, as etcd runs here" in answer.output


@pytest.mark.parametrize(("since", "until", "aside"), [(-95, 5, False), (-100, -1, True)])
async def test_a_certificate_is_renewed_by_the_kubelet_and_an_expired_one_is_set_aside(
    tmp_path: Path, since: int, until: int, aside: bool
) -> None:
    host = a_host()
    _valid(since, until)(host)
    world = world_of(tmp_path / "j", host, a_step("RenewCertificate"))
    before, renewed = host.certificate.current, Certificate(T0, T0 + timedelta(days=100))
    job = world.unit_job

    async def restart(verb: UnitVerb, name: str, timeout: float) -> None:  # noqa: ASYNC109
        await job(verb, name, timeout)
        host.certificate.current = renewed

    world.unit_job = restart  # type: ignore[method-assign]
    answer = await answered(world)
    assert answer.state == "Done" and renewed.not_after.isoformat() in answer.output, answer
    assert world.acts == [(UnitVerb.RESTART, "kubelet.service")] and UNIT
    assert host.certificate.aside == (before if aside else None)


async def test_an_expired_certificate_without_a_successor_is_put_back(tmp_path: Path) -> None:
    host = a_host()
    _valid(-100, -1)(host)
    before = host.certificate.current
    answer = await repaired(tmp_path / "j", host, "RenewCertificate")
    assert answer.state == "Failed" and "pending CSRs" in answer.output, answer
    assert host.certificate.current == before


async def test_a_component_is_refused_until_somebody_manages_it(tmp_path: Path) -> None:
    answer = await repaired(tmp_path / "j", a_host(), "RepairComponent", component="cni")
    assert answer.state == "Refused" and "RestartUnit" in answer.output


async def test_a_script_that_was_changed_is_never_run(tmp_path: Path) -> None:
    host = a_host()
    world = world_of(tmp_path / "j", host, a_step("RunScript"))
    world.scripts["fix"] = msgspec.structs.replace(world.scripts["fix"], sha256="0" * 64)
    answer = await answered(world)
    assert answer.state == "Refused" and "digest" in answer.output
    assert host.scripts.ran == []


def test_settings_of_repairs_are_checked_with_what_to_write_instead() -> None:
    repairs = Repairs(
        mount_points=["/", "/data", "data", "/data/"],
        units=["kubelet.service", "kube-*", "*", "kubelet"],
        stop_units=["a b.service"],
    )
    scripts = {
        "well": AllowedScript("/opt/x", "0" * 64, params={"device": ["eth0"]}),
        "ill": AllowedScript("x", "abc", params={"a b": []}),
    }
    told = "\n".join(complaints(repairs, scripts))
    for what in ("units 'kubelet'", "stop_units 'a b.service'"):
        assert what in told
    for what in ("'data'", "'/data/'", "ill.path 'x'", "ill.sha256 'abc'", "ill.params 'a b'"):
        assert what in told
    assert "well" not in told and len(told.splitlines()) == 7


def test_bounds_of_sysctls_hold_the_bound_of_their_kind() -> None:
    assert all(0 < bound.low <= bound.high for bound in SYSCTLS.values())
