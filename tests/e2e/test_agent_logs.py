"""Logs of a real host: its journald, its units, a pipe in the form of /dev/kmsg, files that rotate.

/dev/kmsg of the host is a pipe, which its journald reads as the kernel's: what is written there is
what the kernel (facility 0) or a tenant with access to the device (any other) would have written.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.agent_pod import SETTINGS, pod_binds, pod_command, write_pod
from support.agent_service import STATE, binds
from support.hosts import Host, Hosts
from support.kmsg import Kmsg

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

RUNNER = Path(__file__).parents[1] / "hosts" / "watching_host.py"
SECONDS = 60.0
FILELOG = {
    "plugin": "filelog",
    "pluginConfig": {
        "timestamp": "^.{20}",
        "message": r"app: (.*)",
        "timestampFormat": "2006-01-02T15:04:05Z",
    },
    "logPath": "/var/log/app.log",
    "lookback": "1h",
    "source": "app-monitor",
    "conditions": [{"type": "AppBroken", "reason": "AppIsWell", "message": "the app is well"}],
    "rules": [
        {"type": "temporary", "reason": "AppSaid", "pattern": "said .*"},
        {"type": "permanent", "condition": "AppBroken", "reason": "Broke", "pattern": "broke .*"},
    ],
}
KUBELET = "[Service]\nExecStart=/bin/sh -c 'while read line; do echo \"$line\"; done < /run/say'\n"
READONLY = "EXT4-fs ({}): Remounting filesystem read-only"
XID = "NVRM: Xid (PCI:0000:{}:00): 79, pid=1, name=python"


def settings(name: str, kernel: str) -> str:
    return f"""
node = "logs"
server = "http://127.0.0.1:1"
state_dir = "{STATE}/{name}"
[detectors]
npd_configs = ["/etc/npd/*.json"]
[detectors.logs]
{kernel}
[detectors.kubelet]
enabled = false
[detectors.runtime]
enabled = false
"""


class Watching:
    """The log detector on a host, as a unit of its own; what it tells is in a file."""

    def __init__(self, host: Host, name: str, kernel: str, *, in_pod: bool) -> None:
        self.host, self.name = host, name
        self._log = f"var/log/{name}.jsonl"
        folder = SETTINGS if in_pod else "/etc/kubenode"
        host.write(f"{folder}/{name}.toml", settings(name, kernel))
        program = ["python3", "-P", "/opt/kubenode/watching_host.py", f"/etc/kubenode/{name}.toml"]
        self._command = pod_command(*program) if in_pod else program

    def start(self) -> None:
        self.host.run(
            *("systemd-run", f"--unit={self.name}", "--collect"),
            f"--property=StandardOutput=append:/{self._log}",
            *("--setenv=PYTHONPATH=/opt/kubenode/src:/opt/kubenode/lib", *self._command),
        )

    def stop(self) -> None:
        self.host.run("systemctl", "stop", f"{self.name}.service")

    def lines(self) -> list[dict[str, str]]:
        path = self.host.root / self._log
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.splitlines() if line.endswith("}")]

    def events(self, text: str) -> list[dict[str, str]]:
        return [one for one in self.lines() if "type" not in one and text in one["message"]]

    def until_event(self, text: str) -> dict[str, str]:
        end = time.monotonic() + SECONDS
        while not (found := self.events(text)):
            assert time.monotonic() < end, f"no Event with {text}: {self.lines()[-20:]}"
            time.sleep(0.02)
        return found[0]

    def until(self, kind: str, status: str) -> dict[str, str]:
        end = time.monotonic() + SECONDS
        while True:
            told = [one for one in self.lines() if one.get("type") == kind]
            if told and told[-1]["status"] == status:
                return told[-1]
            assert time.monotonic() < end, f"{kind} is not {status}: {self.lines()[-20:]}"
            time.sleep(0.02)


class World:
    """One host, two detectors: one has the kernel's lines from the journal, one from a device."""

    def __init__(self, host: Host, journald: Kmsg, device: Kmsg, *, in_pod: bool) -> None:
        self.host, self.pipes = host, (journald, device)
        self.by_journal = Watching(host, "byjournal", 'kernel = "journal"', in_pod=in_pod)
        kernel = 'kernel = "kmsg"\nkmsg = "/mnt/kmsg"'
        self.by_device = Watching(host, "bydevice", kernel, in_pod=in_pod)
        self.both = (self.by_journal, self.by_device)

    def kernel_says(self, text: str, **how: Any) -> None:
        for pipe in self.pipes:
            pipe.write(text, **how)

    def kubelet_says(self, text: str) -> None:
        self.host.run("sh", "-c", 'printf "%s\\n" "$1" > /run/say', "sh", text)


@pytest.fixture(scope="module", params=["service", "pod"])
def world(
    request: pytest.FixtureRequest, hosts: Hosts, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    in_pod = request.param == "pod"
    folder = tmp_path_factory.mktemp("kmsg")
    journald, device = Kmsg(folder / "journald"), Kmsg(folder / "device")
    host = hosts.boot(
        f"logs-{request.param[0]}",
        bind={**(pod_binds() if in_pod else binds()), RUNNER: "/opt/kubenode/watching_host.py"},
        args=[
            *("--capability=CAP_SYSLOG", f"--bind={journald.path}:/dev/kmsg"),
            f"--bind={device.path}:/mnt/kmsg",
        ],
    )
    host.write("/etc/npd/app.json", json.dumps(FILELOG))
    host.write("/var/log/app.log", "")
    host.write("/etc/systemd/system/kubelet.service", KUBELET)
    host.run("mkfifo", "/run/say")
    host.run("systemctl", "daemon-reload")
    # Opened for both, the pipe never ends.
    host.run("systemd-run", "--unit=hold", "sh", "-c", "sleep infinity <> /run/say")
    host.run("systemctl", "start", "kubelet.service")
    if in_pod:
        write_pod(host, host.name, "https://127.0.0.1:1", "")
    made = World(host, journald, device, in_pod=in_pod)
    for one in made.both:
        one.start()
    for one in made.both:
        one.until("KernelDeadlock", "False")
        one.until("DiskBadBlock", "False")
    yield made
    host.destroy()
    journald.close()
    device.close()


def test_a_kernel_line_sets_a_condition_and_its_counter_line_clears_it(world: World) -> None:
    world.kernel_says(READONLY.format("sdz1"))
    for one in world.both:
        told = one.until("ReadonlyFilesystem", "True")
        assert (told["reason"], told["message"]) == (
            "FilesystemIsReadOnly",
            READONLY.format("sdz1"),
        )
    world.kernel_says("EXT4-fs (sdz1): re-mounted 5e6f2c1a-0000 r/w. Quota mode: none.")
    for one in world.both:
        assert one.until("ReadonlyFilesystem", "False")["reason"] == "FilesystemIsNotReadOnly"


def test_spoofed_lines_count_for_nothing(world: World) -> None:
    """From a tenant that writes to /dev/kmsg, to syslog in the kernel's name, or as a kubelet."""
    x509 = "x509: certificate has expired or is not yet valid: {}"
    world.kernel_says(XID.format("aa"), facility=1)
    world.kernel_says(XID.format("aa"), facility=3)
    run = world.host.run
    run("logger", "-t", "kernel", "-p", "kern.crit", XID.format("aa"))
    run("logger", "-t", "kubelet", x509.format("spoofed"))
    scope = ["systemd-run", "--quiet", "--scope", "--unit=cri-containerd-1", "--slice=kubepods"]
    run(*scope, "logger", "-t", "kubelet", x509.format("spoofed"))
    as_nobody = ["systemd-run", "--quiet", "--wait", "--uid=nobody", "--slice=kubepods-x"]
    run(*as_nobody, "logger", "-t", "kubelet", x509.format("spoofed"))
    world.kernel_says(XID.format("bb"))
    world.kubelet_says(x509.format("true"))
    for one in world.both:
        assert one.until_event("0000:bb:00")["reason"] == "NvidiaXid"
        assert one.until_event("valid: true")["reason"] == "CertificateNotValid"
        assert one.events("0000:aa:00") == one.events("spoofed") == []


def test_a_restart_misses_nothing_and_repeats_nothing(world: World) -> None:
    x509 = "x509: certificate has expired or is not yet valid: restart {}"
    world.kubelet_says(x509.format("before"))
    world.kernel_says(READONLY.format("sdy1"))
    for one in world.both:
        one.until_event("restart before")
        one.until("ReadonlyFilesystem", "True")
        one.stop()
    world.kubelet_says(x509.format("meanwhile"))
    world.kernel_says(XID.format("cc"))
    world.host.run("journalctl", "--sync")
    for one in world.both:
        one.start()
    world.kubelet_says(x509.format("after"))
    for one in world.both:
        one.until_event("restart after")
        one.until_event("0000:cc:00")
        assert [
            len(one.events(f"restart {word}")) for word in ("before", "meanwhile", "after")
        ] == [
            1,
            1,
            1,
        ]
        assert len(one.events("0000:cc:00")) == 1
        told = [line["status"] for line in one.lines() if line.get("type") == "ReadonlyFilesystem"]
        assert told[-1] == "True"
    world.kernel_says("EXT4-fs (sdy1): unmounting filesystem 5e6f2c1a-0000.")
    for one in world.both:
        one.until("ReadonlyFilesystem", "False")


def test_a_journal_that_rotates_and_a_reader_that_dies_lose_nothing(world: World) -> None:
    x509 = "x509: certificate has expired or is not yet valid: turn {}"
    run = world.host.run
    world.kubelet_says(x509.format("one"))
    world.by_device.until_event("turn one")
    run("journalctl", "--rotate", "--vacuum-files=1")
    world.kubelet_says(x509.format("two"))
    world.by_device.until_event("turn two")
    agent = world.host.unit("bydevice.service", "MainPID")
    (reader,) = run("pgrep", "-P", agent, "journalctl").stdout.split()
    run("kill", "-9", reader)
    world.kubelet_says(x509.format("three"))
    world.by_device.until_event("turn three")
    run("systemctl", "restart", "systemd-journald.service")
    run("systemctl", "restart", "kubelet.service")
    world.kubelet_says(x509.format("four"))
    world.by_device.until_event("turn four")
    for word in ("one", "two", "three", "four"):
        assert len(world.by_device.events(f"turn {word}")) == 1


def test_a_file_of_node_problem_detectors_filelog_is_followed_over_rotation(world: World) -> None:
    log = "/var/log/app.log"

    def app(text: str, path: str = log) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        world.host.run("sh", "-c", f'echo "{now} h app: {text}" >> {path}')

    watching = world.by_device
    watching.until("AppBroken", "False")
    app("said one")
    watching.until_event("said one")
    world.host.run("mv", log, f"{log}.1")
    app("said late", f"{log}.1")
    app("said two")
    watching.until_event("said late")
    watching.until_event("said two")
    world.host.run("cp", log, f"{log}.2")
    world.host.run("truncate", "-s0", log)
    app("broke three")
    told = watching.until("AppBroken", "True")
    assert (told["reason"], told["message"]) == ("Broke", "broke three")
    assert len(watching.events("said two")) == 1
