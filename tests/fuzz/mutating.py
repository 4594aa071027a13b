"""Feeds a target changed copies of its seeds for as long as it is told to, and says what it saw.

    PYTHONPATH=tests:. python -m fuzz.mutating node_object --seconds 600

What breaks a target is written to a file, which the error names.
"""

import argparse
import json
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

from fuzz.mutants import mutants
from fuzz.object_targets import TARGETS


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()))
    given = parser.parse_args()
    target, runs, slowest = TARGETS[given.target], 0, 0.0
    began = last = time.monotonic()
    for data in mutants(target.seeds, random.Random(given.seed)):
        try:
            target.feed(data)
        except BaseException as error:  # whatever it is, its bytes must not be lost
            kept = given.keep / f"crash-{given.target}"
            kept.write_bytes(data)
            error.add_note(f"its bytes are in {kept}")
            raise
        now = time.monotonic()
        runs, slowest, last = runs + 1, max(slowest, now - last), now
        if now - began > given.seconds:
            break
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    seen = {"target": given.target, "runs": runs, "slowest_seconds": round(slowest, 3)}
    sys.stdout.write(json.dumps({**seen, "peak_mebibytes": round(peak)}) + "\n")


if __name__ == "__main__":
    main()
