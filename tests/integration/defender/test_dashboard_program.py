"""`kubenode run defender --dashboard-port`: the dashboard as people start it."""

import json
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from support.embedded import EmbeddedPlane
from support.programs import Program

from kubenode.cli.cluster import crds

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]


def port_in(log: str) -> int | None:
    for line in log.splitlines():
        if '"dashboard listens"' in line:
            return int(json.loads(line)["port"])
    return None


def test_a_program_serves_the_dashboard_to_those_who_log_in(tmp_path: Path) -> None:
    with EmbeddedPlane(crds=crds()) as plane:
        flags = ["--no-lease", "--log-json", "--listen-port", "0", "--health-port", "0"]
        program = Program(
            "defender",
            ["run", "defender", "--kubeconfig", str(plane.kubeconfig), *flags,
             "--dashboard-port", "0"],
            tmp_path,
        )  # fmt: skip
        program.start()
        try:
            deadline = time.monotonic() + 90
            while (port := port_in(program.log)) is None:
                assert time.monotonic() < deadline, program.log
                time.sleep(0.05)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/jobs", timeout=10) as answer:
                assert answer.url.endswith("/login?to=%2Fjobs")
                assert "Bearer token" in answer.read().decode()
            forged = urllib.request.Request(
                f"http://127.0.0.1:{port}/login", data=b"link=", method="POST",
                headers={"Origin": "http://evil.example"},
            )  # fmt: skip
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(forged, timeout=10)
            with refused.value as answered:
                assert answered.code == 403
        finally:
            program.stop()
