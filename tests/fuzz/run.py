"""Fuzzes what reads bytes from outside, by coverage (atheris), for as long as it is told to.

    PYTHONPATH=tests:. python -m fuzz.run watching --seconds 600

A crash ends it with the bytes in a file `crash-*` of the folder that --keep names; memory beyond
--megabytes is a crash too.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import atheris

from simulation.coverage import BESIDE, VARIABLE

with atheris.instrument_imports(include=["agent.detectors.logs", "remedy.hostdoctor"]):
    from fuzz import log_targets, told_targets
    from fuzz.log_targets import PROGRAM

TARGETS = {**log_targets.TARGETS, **told_targets.TARGETS}


def seeds(folder: Path) -> None:
    """Examples that our packs' patterns know, so that the fuzzer begins behind the first test."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, monitor in enumerate(PROGRAM.monitors):
        lines = b"\0".join(b"\x01" + rule.pattern.encode() for rule in monitor.rules)
        (folder / f"patterns-{number}").write_bytes(lines)
    (folder / "record").write_bytes(b"3,7,1000000,-,caller=T12;BUG: x\n SUBSYSTEM=pci\n")
    (folder / "entry").write_bytes(b'{"MESSAGE":"x","_TRANSPORT":"kernel","SYSLOG_FACILITY":"0"}')
    (folder / "config").write_bytes(
        b'{"plugin":"kmsg","source":"s","rules":[{"type":"temporary","reason":"R","pattern":"a"}]}'
    )
    for number, payload in enumerate(payloads()):
        (folder / f"payload-{number}").write_bytes(json.dumps(payload).encode())


def payloads() -> Iterator[Any]:
    """What sources really send, where the shared samples are at hand; fuzzing needs none."""
    folder = Path(os.environ.get(VARIABLE, BESIDE))
    for name in ("host_events_samples.json", "alertmanager_webhook_v4.json"):
        if (folder / name).is_file():
            samples = json.loads((folder / name).read_text())["samples"]
            yield from (sample["payload"] for sample in samples)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir(), "kubenode-fuzz"))
    given = parser.parse_args()
    corpus = given.keep / given.target
    seeds(corpus)
    limits = [f"-max_total_time={given.seconds}", f"-rss_limit_mb={given.megabytes}"]
    limits += ["-max_len=20000", "-timeout=20", f"-artifact_prefix={given.keep}/"]
    atheris.Setup([sys.argv[0], str(corpus), *limits], TARGETS[given.target])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
