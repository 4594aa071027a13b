"""What real ports read of their tools and tables, and what they do that needs no other host."""

import os
import stat
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.clock import T0
from support.expired import pair_of

from agent.host import HostError
from agent.host.containers import Image
from agent.host.files import HostRoot
from agent.host.ports import Certificate, Gpu, Process
from agent.host.real.clock import of_chrony
from agent.host.real.commands import Commands
from agent.host.real.containers import sandbox, unused, unused_of_ctr
from agent.host.real.disks import PLACES, CleanupFolder, RealDisks
from agent.host.real.filesystems import device_of, mount_of
from agent.host.real.gpus import gpus_of
from agent.host.real.kubelet import RealKubeletCertificate
from agent.host.real.network import files_of
from agent.host.real.processes import ProcProcesses, unit_of
from agent.host.storage import HostMount
from agent.host.systemd import SystemdHost

COMMANDS = Commands(SystemdHost())
FILES = HostRoot()


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["/bin/sleep", "60"]) as process:
        yield process
        process.kill()


async def test_a_process_is_found_and_ended_by_pid_and_start_alone(
    child: "subprocess.Popen[bytes]",
) -> None:
    port = ProcProcesses(FILES)
    found = await port.find(child.pid)
    assert found is not None and found.exe.startswith("/") and found.start_time > 0
    assert await port.runs("sleep") and not await port.runs("no-such-program")
    other = Process(child.pid, found.start_time + 1)
    assert not await port.signal(other, "KILL")
    assert child.poll() is None, "another process of this PID is not touched"
    assert await port.signal(found, "TERM")
    assert child.wait(30) == -15
    assert await port.find(child.pid) is None
    assert not await port.signal(found, "KILL")


@pytest.mark.parametrize(
    ("cgroup", "unit"),
    [
        ("0::/system.slice/kubelet.service\n", "kubelet.service"),
        ("0::/kubepods.slice/cri-containerd-abc.scope\n", "cri-containerd-abc.scope"),
        ("5:cpu:/other.service\n1:name=systemd:/user.slice/a.service/b.scope\n", "b.scope"),
        ("0::/\n", ""),
        ("", ""),
    ],
)
def test_the_unit_of_a_process_is_the_innermost(cgroup: str, unit: str) -> None:
    assert unit_of(cgroup) == unit


NAMES = {
    "syslog": False,
    "syslog.1": True,
    "kern.log.2.gz": True,
    "dpkg.log": False,
    "messages-20260101": True,
    "app-20260101.log.xz": True,
    "old.old": True,
    "backup.tar.gz": False,
    "data.db": False,
    "nginx.log.gz": True,
    "release-1.2.3.txt": False,
}


async def test_only_rotated_logs_go(tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name).write_text("x")
    place = CleanupFolder(str(tmp_path), PLACES["logs"][0].pattern)
    disks = RealDisks(COMMANDS, FILES, places={"logs": [place]})
    found = {Path(file.path).name for file in await disks.removable("logs")}
    assert found == {name for name, goes in NAMES.items() if goes}


async def test_links_second_names_open_files_and_spared_folders_stay(tmp_path: Path) -> None:
    home, root = tmp_path / "home", tmp_path / "log"
    for folder in (home, root / "audit", root / "app"):
        folder.mkdir(parents=True)
    (home / "mine.1").write_text("x")
    for name in ("audit/a.1", "app/b.1", "twice.1", "open.1"):
        (root / name).write_text("x")
    (root / "link").symlink_to(home)
    (root / "file.1").symlink_to(home / "mine.1")
    os.link(root / "twice.1", home / "second")
    os.mkfifo(root / "pipe.1")
    place = CleanupFolder(str(root), PLACES["logs"][0].pattern, frozenset({"audit"}))
    disks = RealDisks(COMMANDS, FILES, places={"logs": [place]})
    held = os.open(root / "open.1", os.O_RDONLY)
    (only,) = await disks.removable("logs")
    os.close(held)
    assert only.path == f"{root}/app/b.1"
    (root / "app").rename(root / "gone")
    (root / "app").symlink_to(home)
    (home / "b.1").write_text("x")
    assert not await disks.remove(only), "the way there is a link by now"
    assert (home / "b.1").exists()
    (root / "app").unlink()
    (root / "gone").rename(root / "app")
    assert await disks.remove(only)
    assert not (root / "app" / "b.1").exists()
    with pytest.raises(HostError, match="in none of the folders"):
        await disks.remove(type(only)("/home/x/y", 1, only.modified, 1))


async def test_folders_to_clean_are_those_below_the_root_and_no_links(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "data/log").mkdir(parents=True)
    (tmp_path / "data/log/a.1").write_text("x")
    (tmp_path / "var").symlink_to("/data")
    place = CleanupFolder("/var/log", r".+\.1")
    disks = RealDisks(COMMANDS, HostRoot(str(tmp_path)), places={"logs": [place]})
    (file,) = await disks.removable("logs")
    assert file.path == "/var/log/a.1"
    (tmp_path / "data/log").rename(tmp_path / "data/old")
    (tmp_path / "data/log").symlink_to("/data/old")
    assert await disks.removable("logs") == [] and not await disks.remove(file)
    (tmp_path / "data/log").unlink()
    (tmp_path / "data/old").rename(tmp_path / "data/log")
    assert await disks.remove(file) and not (tmp_path / "data/log/a.1").exists()


async def test_a_file_that_was_replaced_meanwhile_stays(tmp_path: Path) -> None:
    disks = RealDisks(COMMANDS, FILES, places={"logs": [CleanupFolder(str(tmp_path), r".+\.1")]})
    (tmp_path / "a.1").write_text("x")
    (found,) = await disks.removable("logs")
    (tmp_path / "new").write_text("y")
    (tmp_path / "new").replace(tmp_path / "a.1")
    assert not await disks.remove(found) or found.inode == (tmp_path / "a.1").stat().st_ino


async def test_the_newest_crash_dump_stays(tmp_path: Path) -> None:
    disks = RealDisks(
        COMMANDS, FILES, places={"crashDumps": [CleanupFolder(str(tmp_path), ".+", newest=1)]}
    )
    for age, name in enumerate(("c", "b", "a")):
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (time.time() - age * 100,) * 2)
    found = [Path(file.path).name for file in await disks.removable("crashDumps")]
    assert found == ["a", "b"], "oldest first"
    assert stat.S_ISREG((tmp_path / "c").stat().st_mode)


MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
30 22 8:2 / /data rw,relatime shared:2 - ext4 /dev/sdb ro
31 22 8:3 / /new rw,relatime - ext4 /dev/sdc rw,emergency_ro
32 22 8:4 / /with\\040blank ro,relatime - xfs /dev/sdd rw
33 22 8:5 / /usr ro,relatime - ext4 /dev/sde ro
34 33 8:6 / /usr rw,relatime - ext4 /dev/sdf rw
"""
FSTAB = "# /data\n/dev/sdb /data ext4 defaults 0 2\n/dev/sdd /with\\040blank xfs ro 0 0\n"


@pytest.mark.parametrize(
    ("point", "found"),
    [
        ("/", HostMount("/", "/dev/sda1", "ext4", False, False)),
        ("/data", HostMount("/data", "/dev/sdb", "ext4", True, False)),
        ("/new", HostMount("/new", "/dev/sdc", "ext4", True, False)),
        ("/with blank", HostMount("/with blank", "/dev/sdd", "xfs", True, True)),
        ("/usr", HostMount("/usr", "/dev/sdf", "ext4", False, False)),
        ("/dat", None),
    ],
)
def test_a_mount_is_the_topmost_at_exactly_its_place(point: str, found: HostMount | None) -> None:
    assert mount_of(point, MOUNTS, FSTAB) == found


def test_the_device_of_a_mount_is_that_of_the_topmost() -> None:
    assert device_of("/usr", MOUNTS) == "8:6"


DIGEST = "sha256:" + "1" * 64
CTR_IMAGES = f"""\
REF TYPE DIGEST SIZE PLATFORMS LABELS
docker.io/shop/web:1 application/x {DIGEST} 12.5 MiB linux/amd64 io.cri-containerd.image=managed
docker.io/shop/alias:1 application/x {DIGEST} 12.5 MiB linux/amd64 -
docker.io/shop/old:1 application/x sha256:2 1.0 GiB linux/amd64 -
registry/pause:3 application/x sha256:3 300.0 KiB linux/amd64 a=b,io.cri-containerd.pinned=pinned
"""
CTR_CONTAINERS = "CONTAINER IMAGE RUNTIME\nc1 docker.io/shop/web:1 io.containerd.runc.v2\n"


def test_an_image_is_in_use_under_all_of_its_names() -> None:
    assert unused_of_ctr(CTR_IMAGES, CTR_CONTAINERS) == [Image("docker.io/shop/old:1", 1024**3)]
    for images, containers in (("", CTR_CONTAINERS), ("REF X\n", CTR_CONTAINERS), (CTR_IMAGES, "")):
        with pytest.raises(HostError, match="a form that is not known"):
            unused_of_ctr(images, containers)


def test_of_crictl_s_images_those_are_unused_that_no_container_names() -> None:
    images: list[dict[str, Any]] = [
        {"id": "sha256:a", "repoTags": ["web:1"], "size": "100"},
        {"id": "sha256:b", "repoTags": [], "repoDigests": ["old@sha256:x"], "size": "200"},
        {"id": "sha256:c", "repoTags": ["pause:3"], "pinned": True},
    ]
    assert unused(list(images), {"web:1"}) == [Image("sha256:b", 200)]
    assert unused(list(images), {"sha256:a", "old@sha256:x"}) == []


def test_a_sandbox_is_ready_unless_it_is_told_not_to_be() -> None:
    about = {"namespace": "shop", "name": "web"}
    listed = {"id": "a", "state": "SANDBOX_NOTREADY", "createdAt": "1000000000", "metadata": about}
    pod: dict[str, Any] = {"linux": {"namespaces": {"options": {"network": "POD"}}}}
    found = sandbox(listed, pod)
    assert not found.ready and not found.host_network and found.pod == "shop/web"
    assert sandbox({**listed, "state": "SANDBOX_NEW"}, {}).ready
    assert sandbox(listed, {}).host_network, "what is not told is not taken for harmless"
    assert found.created == datetime.fromtimestamp(1, UTC) + timedelta(0)


TRACKING = "0A000001,10.0.0.1,3,1767268800.0,-0.000012,0.1,0.1,1.0,0.0,0.1,0.01,0.01,64.2,{}\n"
SOURCES = "^,*,10.0.0.1,2,6,377,34,0.1,0.1,0.1\n^,?,10.0.0.2,0,6,0,-,0.0,0.0,0.0\n"


def test_chrony_s_offset_counts_once_it_is_synchronised() -> None:
    well = of_chrony("chrony.service", TRACKING.format("Normal"), SOURCES)
    assert (well.offset, well.synchronised, well.reachable) == (-0.000012, True, 1)
    lost = of_chrony("chrony.service", TRACKING.format("Not synchronised"), "")
    assert (lost.offset, lost.synchronised, lost.reachable) == (None, False, 0)
    with pytest.raises(HostError, match="tells nothing"):
        of_chrony("chrony.service", "506 Cannot talk to daemon", "")


def test_a_gpu_with_errors_for_values_does_not_answer() -> None:
    known = "0, GPU-a, Disabled, P0\n1, GPU-b, Enabled, P8\n2, GPU-c, [N/A], [GPU is lost]\n"
    assert gpus_of(known, "GPU-a, 4711\nGPU-a, 4712\n") == [
        Gpu("GPU-a", 0, 2, False, True),
        Gpu("GPU-b", 1, 0, True, True),
        Gpu("GPU-c", 2, 0, False, False),
    ]
    with pytest.raises(HostError, match="not known"):
        gpus_of("NVIDIA-SMI has failed\n", "")


def test_what_puts_a_network_back_is_in_an_order_that_works() -> None:
    saved = {
        "addresses4": "2: eth0    inet 10.0.0.5/24 brd 10.0.0.255 scope global dynamic eth0\\"
        "       valid_lft 3000sec preferred_lft 2000sec\n",
        "addresses6": "2: eth0    inet6 fd00::5/64 scope global \\       valid_lft forever "
        "preferred_lft forever\n",
        "routes4": "default via 10.0.0.1 dev eth0 proto dhcp metric 100 linkdown \n"
        "10.0.0.0/24 dev eth0 proto kernel scope link src 10.0.0.5 \n"
        "10.9.0.0/16 via 10.0.0.9 dev eth0 table 100 \n",
        "routes6": "fe80::/64 dev eth0 proto kernel metric 256 expires 100sec pref medium\n",
        "rules4": "0:\tfrom all lookup local\n100:\tfrom 10.9.0.0/16 lookup 100\n",
        "rules6": "32766:\tfrom all lookup main\n",
    }
    links = [
        {"ifname": "eth0", "mtu": 9001, "flags": ["BROADCAST", "UP"]},
        {"ifname": "eth1", "mtu": 1500, "flags": ["BROADCAST"]},
    ]
    made = files_of(links, saved, "networking.service", 20.0, "https://api.example:6443")
    assert (made["host"], made["port"], made["within"]) == ("api.example", "6443", "20")
    assert made["restore4"].splitlines() == [
        "link set dev eth0 mtu 9001 up",
        "address replace 10.0.0.5/24 dev eth0 broadcast 10.0.0.255 valid_lft 3000"
        " preferred_lft 2000",
        "route replace 10.0.0.0/24 dev eth0 proto kernel scope link src 10.0.0.5",
        "route replace default via 10.0.0.1 dev eth0 proto dhcp metric 100",
        "route replace 10.9.0.0/16 via 10.0.0.9 dev eth0 table 100",
        "rule add priority 100 from 10.9.0.0/16 lookup 100",
    ]
    assert made["restore6"].splitlines() == [
        "address replace fd00::5/64 dev eth0",
        "route replace fe80::/64 dev eth0 proto kernel metric 256",
    ]
    assert made["addresses"].splitlines() == ["eth0 10.0.0.5/24", "eth0 fd00::5/64"]
    assert "table 100" not in made["routes"], "only what the main table has is taken away"


async def test_the_kubelets_certificate_is_read_for_its_dates(tmp_path: Path) -> None:
    file = tmp_path / "kubelet-client-current.pem"
    kubelet = RealKubeletCertificate(COMMANDS, FILES, str(file))
    assert await kubelet.read() is None
    ends = T0 + timedelta(days=1)
    file.write_bytes(pair_of("n1", T0, ends))
    assert await kubelet.read() == Certificate(T0, ends)
    file.write_bytes(b"")
    with pytest.raises(HostError, match="holds no certificate"):
        await kubelet.read()
