"""What runs out, wears out or goes astray on a host, from a tree of files like /proc and /sys."""

import json
import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.clock import T0, FakeClock
from support.pki import Authority
from support.watched import Tree

from agent.detectors.checks import Findings
from agent.detectors.checks.host import certificates, mounts, pressure, smart, space, tables, tasks
from agent.detectors.checks.host.time import Clocks, tracking
from agent.detectors.checks.programs import DEFAULT_OUTPUT_BYTES as KEPT_BYTES
from agent.detectors.checks.programs import Ran
from agent.host.files import HostRoot
from agent.probes import Answer, CannotAnswer


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    made = Tree(tmp_path)
    made.write("proc/sys/fs/file-nr", "100\t0\t1000\n")
    made.write("proc/loadavg", "0.1 0.2 0.3 2/500 12345\n")
    made.write("proc/sys/kernel/pid_max", "32768\n")
    made.write("proc/sys/kernel/threads-max", "100000\n")
    return made


def faults(found: Findings) -> dict[str, str]:
    return {kind: finding.reason for kind, finding in found.items() if finding.faulty}


# ---- tables


def test_files_tasks_and_connections_that_run_out_are_faults_until_well_below(tree: Tree) -> None:
    table = tables.Tables(90, 90, 90, str(tree), str(tree))
    assert faults(table.inspect()) == {}
    tree.write("proc/sys/fs/file-nr", "910\t0\t1000\n")
    tree.write("proc/loadavg", "0.1 0.2 0.3 2/30000 12345\n")
    tree.write("proc/sys/net/netfilter/nf_conntrack_count", "95\n")
    tree.write("proc/sys/net/netfilter/nf_conntrack_max", "100\n")
    assert faults(table.inspect()) == {
        "FDProblem": "FDNearlyUsedUp",
        "PIDProblem": "PIDNearlyUsedUp",
        "ConntrackFullProblem": "ConntrackNearlyFull",
    }
    tree.write("proc/sys/fs/file-nr", "870\t0\t1000\n")
    assert "FDProblem" in faults(table.inspect())
    tree.write("proc/sys/fs/file-nr", "840\t0\t1000\n")
    assert "FDProblem" not in faults(table.inspect())


def test_a_daemon_at_its_own_limit_of_files_is_named(tree: Tree) -> None:
    tree.process(77, "kubelet")
    tree.write("proc/77/limits", "Limit  Soft Hard Units\nMax open files            4 4 files\n")
    for number in range(4):
        tree.write(f"proc/77/fd/{number}", "")
    found = tables.Tables(90, 90, 90, str(tree), str(tree)).inspect()["FDProblem"]
    assert found.faulty
    assert "kubelet, process 77: 4 of 4" in found.message


def test_a_kernel_without_a_limit_or_without_tracking_has_no_fault(tree: Tree) -> None:
    tree.write("proc/sys/fs/file-nr", "100\t0\t9223372036854775807\n")
    tree.process(8, "containerd")
    tree.write("proc/8/limits", "Max open files  unlimited unlimited files\n")
    assert faults(tables.Tables(90, 90, 90, str(tree), str(tree)).inspect()) == {}


def test_unreadable_tables_are_an_error_not_a_verdict(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="file-nr"):
        tables.Tables(90, 90, 90, str(tmp_path), str(tmp_path)).inspect()


# ---- disk


def test_a_full_filesystem_is_a_fault_until_well_below(tmp_path: Path) -> None:
    used = {"space": 50.0, "inodes": 1.0}
    looked = space.Space(
        ["/", "/none"], 90, 95, str(tmp_path), lambda folder: (used["space"], used["inodes"])
    )
    history = []
    for share in (50.0, 91.0, 88.0, 86.0):
        used["space"] = share
        history.append(looked.inspect()["DiskProblem"].reason)
    assert history == ["NoDiskProblem", "DiskNearlyFull", "DiskNearlyFull", "NoDiskProblem"]
    used["inodes"] = 96.0
    assert looked.inspect()["DiskProblem"].reason == "InodesNearlyUsedUp"


def test_usage_counts_as_df_does(tmp_path: Path) -> None:
    used, inodes = space.usage(os.statvfs(tmp_path))
    assert 0 <= used <= 100
    assert 0 <= inodes <= 100


# ---- mounts

DATA = "40 1 8:17 / /data rw,relatime shared:1 - ext4 /dev/sdb1 {}\n"
ON_PURPOSE = "41 1 8:33 / /usr/share/models ro,relatime - ext4 /dev/sdc1 ro\n"
OTHERS = "42 1 0:21 / /sys ro,nosuid - sysfs sysfs ro\ncut 1 8:1\n\n"


def test_a_filesystem_that_the_kernel_turned_read_only_is_told_from_one_mounted_so(
    tree: Tree,
) -> None:
    looked = mounts.Mounts(str(tree))
    history = []
    for options in ("rw", "ro,errors=remount-ro", "rw", "rw,emergency_ro", "rw,shutdown", "rw"):
        tree.write("proc/1/mountinfo", DATA.format(options) + ON_PURPOSE + OTHERS)
        history.append(bool(looked.inspect()["DiskReadonly"].faulty))
    assert history == [False, True, False, True, True, False]


def test_a_filesystem_that_took_writes_and_was_remounted_is_a_fault(tree: Tree) -> None:
    looked = mounts.Mounts(str(tree))
    remounted = DATA.replace(" rw,relatime", " ro,relatime").format("ro")
    tree.write("proc/1/mountinfo", remounted)
    assert not looked.inspect()["DiskReadonly"].faulty  # never seen otherwise
    tree.write("proc/1/mountinfo", DATA.format("rw"))
    assert not looked.inspect()["DiskReadonly"].faulty
    tree.write("proc/1/mountinfo", remounted)
    found = looked.inspect()["DiskReadonly"]
    assert (found.faulty, found.reason) == (True, "FilesystemIsReadOnly")
    assert "/data (ext4, 8:17)" in found.message
    tree.write("proc/1/mountinfo", "")
    assert not looked.inspect()["DiskReadonly"].faulty  # unmounted
    tree.write("proc/1/mountinfo", remounted.replace("40 1", "90 1"))
    assert not looked.inspect()["DiskReadonly"].faulty  # another mount, read-only from its start


def test_a_mount_point_with_blanks_is_read_as_it_is() -> None:
    (mount,) = mounts.parse(DATA.replace("/data", r"/my\040data").format("rw"))
    assert mount.point == "/my data"


# ---- clock

# As chronyc of chrony 4.3 writes it.
TRACKING = (
    "A29FC87B,162.159.200.123,4,1795349000.123,{},0.000012,0.000034,"
    "-12.345,0.001,0.045,0.0123,0.00045,64.5,{}"
)


async def clock(known: Answer | OSError, chrony: str = "") -> tuple[bool | None, str]:
    async def ask() -> str:
        return chrony

    def kernel() -> Answer:
        if isinstance(known, OSError):
            raise known
        return known

    found = (await Clocks(0.5, kernel, ask).inspect())["NTPProblem"]
    return found.faulty, found.reason


KEPT: Answer = {"synchronized": True, "offset_s": 0.0001}
REFUSED = OSError(1, "adjtimex: Operation not permitted")


@pytest.mark.parametrize(
    ("known", "chrony", "reason"),
    [
        (KEPT, "", "NTPIsUp"),
        (KEPT, "506 Cannot talk to daemon", "NTPIsUp"),
        (KEPT, TRACKING.format("0.00002", "Normal"), "NTPIsUp"),
        (REFUSED, TRACKING.format("0.00002", "Normal"), "NTPIsUp"),
        (KEPT, TRACKING.format("-3600.5", "Normal"), "ClockIsOff"),
        ({"synchronized": True, "offset_s": 0.9}, "", "ClockIsOff"),
        ({"synchronized": False}, "", "ClockUnsynchronized"),
        (REFUSED, TRACKING.format("0.0", "Not synchronised"), "ClockUnsynchronized"),
    ],
)
async def test_a_clock_that_nobody_keeps_or_that_is_off_is_a_fault(
    known: Answer | OSError, chrony: str, reason: str
) -> None:
    assert await clock(known, chrony) == (reason != "NTPIsUp", reason)


async def test_a_clock_of_which_nobody_tells_is_unknown() -> None:
    with pytest.raises(CannotAnswer, match="adjtimex"):
        await clock(REFUSED)
    assert tracking("a,b,c,d,soon") is None


# ---- certificates


def life(begins_days: float, ends_days: float) -> certificates.Life:
    return certificates.Life(
        "kubelet.pem", T0 + timedelta(days=begins_days), T0 + timedelta(days=ends_days)
    )


@pytest.mark.parametrize(
    ("begins", "ends", "reason"),
    [
        (-300, 65, "CertificatesAreValid"),
        (-360, 5, "CertificateExpiresSoon"),
        (-0.8, 0.2, "CertificatesAreValid"),  # a day long, and renewed after 90 %
        (-0.95, 0.05, "CertificateExpiresSoon"),
        (-365, -1, "CertificateExpired"),
        (0.01, 365, "CertificateNotYetValid"),
    ],
)
def test_soon_depends_on_the_life_of_a_certificate(begins: float, ends: float, reason: str) -> None:
    lives = [life(-1, 3000), life(begins, ends)]
    assert certificates.judge(lives, T0, timedelta(days=7)).reason == reason


def test_dates_of_a_certificate_are_read_from_its_file(tmp_path: Path) -> None:
    made = Authority(tmp_path).cert_file.read_bytes()
    (tmp_path / "client.pem").write_bytes(made)
    (life,) = certificates.read("/client.pem", HostRoot(str(tmp_path)))
    assert life.begins < life.ends
    (tmp_path / "cut.pem").write_bytes(made[:200] + made[-40:])
    with pytest.raises(ValueError, match=r"cut\.pem: no certificate can be read"):
        certificates.read("/cut.pem", HostRoot(str(tmp_path)))


def test_without_any_certificate_nothing_is_said(tmp_path: Path) -> None:
    (tmp_path / "pki").mkdir()
    (tmp_path / "pki" / "only.key").write_text("-----BEGIN PRIVATE KEY-----\n")
    looked = certificates.Certificates(["/pki/*", "/none.pem"], 7, FakeClock(), str(tmp_path))
    assert looked.inspect()["CertificateExpiring"].faulty is None


# ---- tasks


def test_a_task_that_stays_in_state_d_hangs_and_one_that_passes_does_not(tree: Tree) -> None:
    looked = tasks.Tasks(2, 2, str(tree))
    for pid in (10, 11):
        tree.process(pid, "jbd2) D (x", "D")
    assert "ProcessD" not in looked.inspect()  # one look cannot tell
    assert faults(looked.inspect()) == {"ProcessD": "ProcessHung"}
    tree.process(11, "jbd2", "D", start=2)  # another one of the same number
    assert faults(looked.inspect()) == {}


def test_many_zombies_are_counted_by_name(tree: Tree) -> None:
    for pid in range(20, 25):
        tree.process(pid, "defunct-child", "Z")
    looked = tasks.Tasks(10, 5, str(tree))
    found = looked.inspect()["ProcessZ"]
    assert (found.faulty, found.reason) == (True, "ManyZombies")
    assert "5 defunct-child" in found.message


# ---- pressure

STALLED = (
    "some avg10=1.0 avg60={0} avg300=0.0 total=1\nfull avg10=1.0 avg60={0} avg300=0.0 total=1\n"
)


def test_pressure_is_a_fault_above_its_limit_and_over_below_half_of_it(tree: Tree) -> None:
    looked = pressure.Pressure("memory", 60, str(tree))
    history = []
    for share in ("1.00", "61.50", "35.00", "29.00"):
        tree.write("proc/pressure/memory", STALLED.format(share))
        history.append(bool(looked.inspect()["MemoryContentionPressure"].faulty))
    assert history == [False, True, True, False]
    assert not looked.quiet
    tree.write("proc/pressure/memory", STALLED.format("0.00"))
    looked.inspect()
    assert looked.quiet


def test_a_kernel_without_pressure_information_cannot_tell(tree: Tree) -> None:
    with pytest.raises(OSError, match="pressure"):
        pressure.Pressure("io", 60, str(tree)).inspect()
    with pytest.raises(OSError, match="no line 'full'"):
        pressure.average("some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n", "full")


# ---- SMART


class Smartctl:
    """Implements Runner: answers by device."""

    def __init__(self, answers: dict[str, tuple[int, Any]]) -> None:
        self.answers = answers

    async def run(self, argv: Sequence[str], seconds: float, output_bytes: int = KEPT_BYTES) -> Ran:
        if "--scan-open" in argv:
            devices = [{"name": name, "type": "sat"} for name in self.answers]
            return Ran(0, json.dumps({"devices": devices}))
        code, said = self.answers[argv[-1]]
        return Ran(code, said if isinstance(said, str) else json.dumps(said))


def attribute(number: int, value: int) -> dict[str, Any]:
    return {"ata_smart_attributes": {"table": [{"id": number, "raw": {"value": value}}]}}


WELL: dict[str, Any] = {"smart_status": {"passed": True}}


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (WELL, "DisksAreWell"),
        ({"smart_status": {"passed": False}}, "DiskIsFailing"),
        ({"nvme_smart_health_information_log": {"critical_warning": 4}}, "NVMeCriticalWarning"),
        ({"nvme_smart_health_information_log": {"percentage_used": 104}}, "NVMeWornOut"),
        (
            {
                "nvme_smart_health_information_log": {
                    "available_spare": 5,
                    "available_spare_threshold": 10,
                }
            },
            "NVMeSpareUsedUp",
        ),
        (
            {"ata_smart_attributes": {"table": [{"id": 197, "raw": {"value": 128}}]}},
            "DiskBadSectors",
        ),
        ({"ata_smart_attributes": {"table": [{"id": 9, "raw": {"value": 9000}}]}}, "DisksAreWell"),
    ],
)
async def test_a_disk_says_how_it_is(told: dict[str, Any], reason: str) -> None:
    looked = smart.Smart([], 100, Smartctl({"/dev/sda": (0, WELL), "/dev/sdb": (64, told)}))
    assert (await looked.inspect())["DiskSMARTProblem"].reason == reason


async def test_disks_that_cannot_be_read_are_no_fault() -> None:
    refused = {"smartctl": {"messages": [{"string": "Permission denied"}]}}
    with pytest.raises(CannotAnswer, match="Permission denied"):
        await smart.Smart(["/dev/sda"], 100, Smartctl({"/dev/sda": (2, refused)})).inspect()
    with pytest.raises(CannotAnswer, match="no JSON"):
        await smart.Smart(["/dev/sda"], 100, Smartctl({"/dev/sda": (127, "")})).inspect()
    both = Smartctl({"/dev/sda": (2, refused), "/dev/sdb": (0, WELL)})
    assert not (await smart.Smart([], 100, both).inspect())["DiskSMARTProblem"].faulty


def test_inotify_can_be_had_here(tmp_path: Path) -> None:
    found = tables.inotify(str(tmp_path))
    assert found.faulty in (False, True)
    with pytest.raises(OSError, match="inotify watch on"):
        tables.inotify(str(tmp_path / os.urandom(4).hex()))
