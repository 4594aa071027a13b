"""The launcher of disposable hosts keeps its promises: apart from each other, and nothing left."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.host_claims import CLAIMS, command
from support.hosts import Hosts

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

OTHER_RUN = """
import sys, time
sys.path.insert(0, sys.argv[1])
from support.hosts import Hosts
with Hosts() as hosts:
    host = hosts.boot("left")
    print(hosts.bridge, hosts.folder, host.pid, flush=True)
    time.sleep(600)
"""


def links() -> str:
    return command("ip", "-o", "link").stdout


def test_hosts_are_machines_of_their_own(hosts: Hosts) -> None:
    one, two = hosts.boot("one"), hosts.boot("two")
    assert one.boot_id() != two.boot_id()
    ids = {host.run("cat", "/etc/machine-id").stdout for host in (one, two)}
    assert len(ids) == 2
    assert one.run("systemctl", "is-system-running").stdout.strip() == "running"
    one.write("/root/mark", "kept")
    before = one.boot_id()
    one.reboot()
    assert one.boot_id() not in ("", before)
    one.power_cut()
    assert one.boot_id() == ""
    one.start()
    assert one.read("/root/mark") == "kept"
    assert two.run("uptime", "-p", check=False).returncode == 0
    one.destroy()
    two.destroy()
    assert f"{hosts.bridge}-one" not in links()


def test_what_a_killed_run_left_is_cleared_by_the_next(hosts: Hosts) -> None:
    tests = Path(__file__).parents[1]
    run = subprocess.Popen(
        [sys.executable, "-c", OTHER_RUN, str(tests)], stdout=subprocess.PIPE, text=True
    )
    assert run.stdout is not None
    with run.stdout:
        bridge, folder, pid = run.stdout.readline().split()
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
    end = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < end, "the host outlives the run that started it"
        time.sleep(0.05)
    with Hosts():
        pass
    assert not Path(folder).exists()
    assert not (CLAIMS / bridge).exists()
    assert f" {bridge}:" not in links() and f"{bridge}-left" not in links()
    assert folder not in Path("/proc/mounts").read_text()
