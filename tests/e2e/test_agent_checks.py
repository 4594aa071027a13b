"""Checks on a real host: what is broken there is told within seconds, and told to be well again."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.agent_pod import pod_binds, pod_command, write_pod
from support.agent_service import SERVICE, binds
from support.components import in_ci
from support.hosts import Host, Hosts

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

RUNNER = Path(__file__).parents[1] / "hosts" / "watching_host.py"
CONFINED = re.compile("(No|Capability|Protect|Private|Restrict|Lock)[A-Za-z]+=")
LOG = "var/log/watching.jsonl"
CONFIG = "/etc/kubenode/agent.toml"
SETTINGS = """
node = "checks"
server = "http://127.0.0.1:1"

[detectors]
npd_configs = ["/etc/npd/*.json"]

[detectors.kubelet]
every_seconds = 1
timeout_seconds = 1
grace_seconds = 1

[detectors.runtime]
every_seconds = 1
timeout_seconds = 5
grace_seconds = 1

[detectors.units]
names = ["flappy.service"]
restarts = 3
within_seconds = 10

[detectors.disk]
every_seconds = 1
folders = ["/mnt/full"]

[detectors.mounts]
every_seconds = 1

[detectors.reboot]
every_seconds = 1
"""
NEEDS_RESTARTING = "/usr/bin/needs-restarting"
KERNEL_IS_OLD = """#!/bin/sh
printf 'Core libraries or services have been updated since boot-up:\\n  * kernel\\n\\n'
echo 'Reboot is required to fully utilize these updates.'
exit 1
"""
HANGS = "#!/bin/sh\nsetsid sleep 4242 & sleep 4242 &\nsleep 4242\n"
MONITOR = {
    "plugin": "custom",
    "pluginConfig": {"invoke_interval": "1s", "timeout": "1s"},
    "source": "custom-monitor",
    "conditions": [
        {"type": "Hanging", "reason": "NotHanging", "message": "does not hang"},
        {"type": "Broken", "reason": "NotBroken", "message": "is not broken"},
        {"type": "Missing", "reason": "NotMissing", "message": "is there"},
        {"type": "VictimStarts", "reason": "FewStarts", "message": "starts seldom"},
    ],
    "rules": [
        {"type": "permanent", "condition": "Hanging", "reason": "Hangs", "path": "/opt/hangs"},
        {
            "type": "permanent",
            "condition": "Broken",
            "reason": "IsBroken",
            "path": "/bin/cat",
            "args": ["/etc/broken"],
        },
        {"type": "permanent", "condition": "Missing", "reason": "IsMissing", "path": "/opt/none"},
        {
            "type": "permanent",
            "condition": "VictimStarts",
            "reason": "ManyStarts",
            "path": "/home/kubernetes/bin/log-counter",
            "args": [
                *("--journald-source=systemd", "--log-path=/var/log/journal", "--lookback=10m"),
                *("--count=2", "--pattern=(Started|Finished) victim.service.*"),
            ],
        },
    ],
}
VICTIM = "[Service]\nType=oneshot\nExecStart=/bin/true\n"
FLAPPY = (
    "[Unit]\nStartLimitIntervalSec=0\n[Service]\nRestart=always\nRestartSec=100ms\n"
    "ExecStart=/bin/false\n"
)
KUBELET = "[Service]\nExecStart=/usr/bin/python3 -m http.server 10248 -d /srv/kubelet\n"


class Watched:
    """A host whose detectors write what they see."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def lines(self) -> list[dict[str, str]]:
        try:
            text = (self.host.root / LOG).read_text()
        except FileNotFoundError:
            return []  # it has only just been started
        return [json.loads(line) for line in text.splitlines() if line.endswith("}")]

    def wait_for(self, kind: str, status: str, reason: str = "", seconds: float = 60.0) -> str:
        """The message of a condition once it has come to `status`."""

        end = time.monotonic() + seconds
        while True:
            told = [line for line in self.lines() if line.get("type") == kind]
            if told and told[-1]["status"] == status and reason in ("", told[-1]["reason"]):
                return told[-1]["message"]
            assert time.monotonic() < end, f"{kind} is not {status} {reason}: {self.lines()[-20:]}"
            time.sleep(0.05)


@pytest.fixture(scope="module", params=["service", "pod"])
def installation(request: pytest.FixtureRequest) -> str:
    """How the agent is installed."""
    return str(request.param)


@pytest.fixture(scope="module")
def disk(installation: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An ext4 filesystem of its own, which the host gets too; a mere folder without loops."""
    folder = tmp_path_factory.mktemp(f"disk-{installation}")
    image, place = folder / "image", folder / "mounted"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(8 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    subprocess.run(["mount", "-o", "loop,errors=remount-ro", image, place], check=False)
    yield place
    if place.is_mount():
        subprocess.run(["umount", place], check=True)


def confinement() -> list[str]:
    """What the agent's own service may not do."""
    lines = [line for line in SERVICE.read_text().splitlines() if CONFINED.match(line)]
    assert len(lines) > 5
    return [f"--property={line}" for line in lines]


@pytest.fixture(scope="module")
def watched(installation: str, hosts: Hosts, disk: Path) -> Iterator[Watched]:
    """The same checks as confined as the service is, and in the Pod of the DaemonSet."""
    in_pod = installation == "pod"
    bound = {**(pod_binds() if in_pod else binds()), RUNNER: "/opt/kubenode/watching_host.py"}
    args = [f"--bind={disk}:/mnt/disk"]
    host = hosts.boot(f"checks-{installation[0]}", bind=bound, args=args)
    program = ["/usr/bin/python3", "-P", "/opt/kubenode/watching_host.py", CONFIG]
    if in_pod:
        write_pod(host, host.name, "https://127.0.0.1:1", SETTINGS)
        program = pod_command(*program)
    else:
        host.write(CONFIG, SETTINGS)
    host.write("/etc/npd/custom.json", json.dumps(MONITOR))
    host.write("/opt/hangs", HANGS, 0o755)
    host.write("/etc/broken", "not broken")
    host.write("/etc/systemd/system/flappy.service", FLAPPY)
    host.write("/etc/systemd/system/victim.service", VICTIM)
    host.write("/etc/systemd/system/kubelet.service", KUBELET)
    host.write("/srv/kubelet/healthz", "ok")
    host.run("mkdir", "-p", "/mnt/full")
    host.run("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/mnt/full")
    host.run("systemctl", "daemon-reload")
    host.run("systemctl", "start", "kubelet.service", "containerd.service")
    host.run(
        *("systemd-run", "--unit=watching", f"--property=StandardOutput=file:/{LOG}"),
        *([] if in_pod else confinement()),
        *("--setenv=PYTHONPATH=/opt/kubenode/src:/opt/kubenode/lib", *program),
    )
    yield Watched(host)
    host.destroy()


def test_f01_a_check_whose_children_hang_is_unknown_and_leaves_nothing(watched: Watched) -> None:
    message = watched.wait_for("Hanging", "Unknown", "CheckCannotRun")
    assert "no result within 1 s" in message
    watched.wait_for("Missing", "Unknown", "CheckCannotRun")
    told = [line for line in watched.lines() if "type" not in line]
    assert any("/opt/hangs" in line["message"] for line in told)
    watched.host.write("/opt/hangs", "#!/bin/sh\nexit 0\n", 0o755)
    watched.wait_for("Hanging", "False", "NotHanging")
    assert watched.host.run("pgrep", "-f", "sleep 4242", check=False).stdout == ""
    assert "KubeNode check" not in watched.host.run("journalctl", "-q", "-o", "cat").stdout


def test_a_custom_plugin_s_condition_comes_and_goes(watched: Watched) -> None:
    watched.wait_for("Broken", "False", "NotBroken")
    watched.host.run("rm", "/etc/broken")
    watched.wait_for("Broken", "True", "IsBroken")
    watched.host.write("/etc/broken", "not broken")
    watched.wait_for("Broken", "False", "NotBroken")


def test_lines_are_counted_by_their_true_writer(watched: Watched) -> None:
    for _ in range(3):
        watched.host.run("logger", "-t", "systemd", "Finished victim.service - spoofed")
    watched.host.run("systemctl", "start", "victim.service")
    watched.wait_for("VictimStarts", "False", "FewStarts")
    watched.host.run("systemctl", "start", "victim.service")
    said = watched.wait_for("VictimStarts", "True", "ManyStarts")
    assert said == "Found 2 matching logs, which meets the threshold of 2"


def test_a_unit_that_flaps_is_told_and_forgotten(watched: Watched) -> None:
    watched.wait_for("FrequentUnitRestart", "False")
    watched.host.run("systemctl", "start", "flappy.service", check=False)
    assert "flappy.service" in watched.wait_for("FrequentUnitRestart", "True")
    watched.host.run("systemctl", "stop", "flappy.service")
    watched.wait_for("FrequentUnitRestart", "False")


def test_a_full_disk_is_told_until_there_is_room(watched: Watched) -> None:
    watched.wait_for("DiskProblem", "False")
    watched.host.run("dd", "if=/dev/zero", "of=/mnt/full/data", "bs=1k", "count=980")
    assert "/mnt/full" in watched.wait_for("DiskProblem", "True", "DiskNearlyFull")
    watched.host.run("rm", "/mnt/full/data")
    watched.wait_for("DiskProblem", "False")


def test_restart_that_packages_wait_for_is_reported_until_none_does(watched: Watched) -> None:
    watched.wait_for("RebootRequired", "False", "NoRebootRequired")
    watched.host.write(NEEDS_RESTARTING, KERNEL_IS_OLD, 0o755)
    message = watched.wait_for("RebootRequired", "True", "PackagesNeedReboot")
    assert message == f"{NEEDS_RESTARTING} -r reports packages kernel"
    watched.host.run("rm", NEEDS_RESTARTING)
    watched.wait_for("RebootRequired", "False")
    watched.host.run("sh", "-c", "echo libc6 >/run/reboot-required.pkgs; >/run/reboot-required")
    message = watched.wait_for("RebootRequired", "True")
    assert message == "/run/reboot-required exists: packages libc6"
    watched.host.run("rm", "/run/reboot-required")
    watched.wait_for("RebootRequired", "False")


def test_services_that_stop_answering_are_unhealthy_until_they_answer(watched: Watched) -> None:
    watched.wait_for("KubeletUnhealthy", "False", "KubeletIsHealthy")
    answered = watched.wait_for("ContainerRuntimeUnhealthy", "False", "ContainerRuntimeIsHealthy")
    assert answered == "Status over /run/containerd/containerd.sock: RuntimeReady"
    watched.host.run("systemctl", "stop", "kubelet.service", "containerd.service")
    assert "kubelet.service is" in watched.wait_for("KubeletUnhealthy", "True")
    watched.wait_for("ContainerRuntimeUnhealthy", "True", "ContainerdUnhealthy")
    watched.host.run("systemctl", "start", "kubelet.service", "containerd.service")
    watched.wait_for("KubeletUnhealthy", "False")
    watched.wait_for("ContainerRuntimeUnhealthy", "False")


def test_a_filesystem_that_failed_takes_no_writes_and_is_told(watched: Watched, disk: Path) -> None:
    if not disk.is_mount():
        (pytest.fail if in_ci() else pytest.skip)("no loop device on this machine")
    watched.wait_for("DiskReadonly", "False")
    source = subprocess.run(
        ["findmnt", "-no", "SOURCE", disk], capture_output=True, text=True, check=True
    ).stdout.strip()
    Path("/sys/fs/ext4", Path(source).name, "trigger_fs_error").write_text("1")
    assert "/mnt/disk (ext4" in watched.wait_for("DiskReadonly", "True", "FilesystemIsReadOnly")
    watched.host.run("umount", "/mnt/disk")
    watched.wait_for("DiskReadonly", "False")
