"""Captain with many members: memory, connections and requests of each, and who waits for whom.

The members answer from a thread of this process, over TLS. Captain is a process of its own, on an
embedded API server. Half of the members then hang: how long do the others wait for a probe?
"""

import argparse
import os
import re
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from support.command import kubenode
from support.daemons import free_port
from support.embedded import EmbeddedPlane
from support.programs import KUBENODE, Program
from support.simulated_members import MemberConduct, MemberSite
from support.waiting import until

from kubenode.cli.member_app import MEMBERS_NAMESPACE

MEMBERS = "/apis/kubenode.io/v1alpha1/memberclusters"
PATIENCE = 300.0
HOUR = 3600.0
PRODUCTION_SECONDS = 60.0
"""Interval of probes by default."""


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--members", type=int, default=300, metavar="N")
    parser.add_argument("--probe-seconds", type=float, default=20.0, metavar="SECONDS")


def figures(chosen: argparse.Namespace) -> dict[str, Any]:
    names = [f"m-{n}" for n in range(chosen.members)]
    with MemberSite() as site, EmbeddedPlane() as plane, tempfile.TemporaryDirectory() as folder:
        assert kubenode("install", "--kubeconfig", plane.kubeconfig).returncode == 0
        bench = MemberBench(site, plane, Path(folder), chosen.probe_seconds)
        bench.program.start()
        try:
            return {"members": len(names), **bench.run(names)}
        finally:
            bench.program.stop()


class MemberBench:
    def __init__(
        self, site: MemberSite, plane: EmbeddedPlane, folder: Path, probe_seconds: float
    ) -> None:
        self._site, self._plane, self._interval = site, plane, probe_seconds
        self._port = free_port()
        words = ("--kubeconfig", str(plane.kubeconfig), "--no-lease", "--audit-file=")
        more = ("--health-port", str(self._port), "--member-probe-seconds", str(probe_seconds))
        self.program = Program("captain", ("run", "captain", *words, *more), folder, KUBENODE)

    def run(self, names: list[str]) -> dict[str, Any]:
        until(lambda: self._page("/readyz"), "Captain is ready", PATIENCE)
        alone = self._resident()
        self._plane.api.load(self._site.objects(names, MEMBERS_NAMESPACE))
        began = time.monotonic()
        self._wait("Connected", len(names))
        connected = time.monotonic() - began
        steady = self._measure_steady()
        figures = {
            "connected_seconds": round(connected, 1),
            "resident_mib_alone": round(alone / 2**20, 1),
            "resident_kib_per_member": round((self._resident() - alone) / 2**10 / len(names), 1),
            "connections_per_member": round(self._sockets() / len(names), 2),
            **steady,
        }
        return figures | {"half_silent": self._silence(names)}

    def _measure_steady(self) -> dict[str, Any]:
        """Requests of a member in an hour with the interval of production, and processor time."""
        probes, worked = self._probes(), self._processor_ms()
        requests = sum(self._site.requests.values())
        time.sleep(2 * self._interval)
        probes, worked = self._probes() - probes, self._processor_ms() - worked
        requests = sum(self._site.requests.values()) - requests
        return {
            "requests_per_member_and_hour": round(requests / probes * HOUR / PRODUCTION_SECONDS),
            "processor_ms_per_probe": round(worked / probes, 1),
        }

    def _silence(self, names: list[str]) -> dict[str, Any]:
        """Let every other member hang, and time how long the rest waits for a probe."""
        silent, rest = names[::2], names[1::2]
        before = self._resident()
        self._site.conduct = dict.fromkeys(silent, MemberConduct.SILENT)
        began = time.monotonic()
        self._wait("Unreachable", len(silent))
        noticed = time.monotonic() - began
        longest = self._longest_wait(rest)
        return {
            "noticed_seconds": round(noticed, 1),
            "longest_wait_in_intervals": round(longest / self._interval, 2),
            "resident_mib_more": round((self._resident() - before) / 2**20, 1),
        }

    def _longest_wait(self, names: list[str]) -> float:
        """Seconds between two probes of a member, the longest of all in three intervals."""
        now = time.monotonic()
        seen = {name: (self._site.requests[name], now) for name in names}
        longest, end = 0.0, now + 3 * self._interval
        while (now := time.monotonic()) < end:
            for name in names:
                count, since = seen[name]
                longest = max(longest, now - since)
                if self._site.requests[name] != count:
                    seen[name] = (self._site.requests[name], now)
            time.sleep(0.1)
        return longest

    def _wait(self, phase: str, number: int) -> None:
        pattern = rf'kubenode_captain_members{{phase="{phase}"}} {number}\.0'
        until(lambda: re.search(pattern, self._page("/metrics")), phase, PATIENCE, every=0.2)

    def _probes(self) -> float:
        [line] = re.findall(r"kubenode_captain_probe_seconds_count (\S+)", self._page("/metrics"))
        return float(line)

    def _processor_ms(self) -> float:
        fields = Path(f"/proc/{self.program.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")

    def _resident(self) -> int:
        return int(Path(f"/proc/{self.program.pid}/statm").read_text().split()[1]) * 4096

    def _sockets(self) -> int:
        folder = Path(f"/proc/{self.program.pid}/fd")
        return sum(str(link.readlink()).startswith("socket:") for link in folder.iterdir())

    def _page(self, path: str) -> str:
        try:
            with urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=10) as page:
                return page.read().decode()  # type: ignore[no-any-return]
        except OSError:
            return ""
