"""A stamp of a host and a time of our own clock cannot be mixed: the type checker refuses it."""

import subprocess
import sys
from pathlib import Path

PLANTED = """\
from datetime import datetime, timedelta

from kubenode.runtime.hosttime import HostTime, as_written, host_time


def fine(now: datetime, stamp: HostTime, other: HostTime) -> None:
    apart: timedelta = stamp - other
    later: HostTime = stamp + apart
    print(stamp < later, max(stamp, other), host_time(now), as_written(stamp), apart)


def mixed(now: datetime, stamp: HostTime) -> None:
    print(now - stamp)
    print(stamp - now)
    print(now < stamp)
    print(stamp >= now)
    print(max(now, stamp) - now)
    since: datetime = stamp
    heard: HostTime = now
    print(since, heard)
"""


def test_type_checker_refuses_a_host_stamp_in_the_place_of_our_time(tmp_path: Path) -> None:
    file = tmp_path / "planted.py"
    file.write_text(PLANTED)
    lines = PLANTED.splitlines()
    first = lines.index("    print(now - stamp)") + 1
    command = [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={tmp_path}", str(file)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    errors = {int(line.split(":")[1]) for line in found.stdout.splitlines() if ": error: " in line}
    assert errors == set(range(first, first + 7)), found.stdout + found.stderr
