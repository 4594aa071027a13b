"""Runs the benchmarks and prints one JSON object; progress goes to standard error.

    make bench                                         every benchmark, short
    make bench ARGS="first_heal --nodes 1000 2000"     one of them at given sizes

Machines differ and are noisy: compare ratios to the floor of the same run, not absolute times.
"""

import argparse
import json
import os
import platform
import sys
from typing import Any

from bench import first_heal


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("benches", nargs="*", default=["first_heal"], choices=["first_heal"])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000])
    parser.add_argument("--singles", type=int, default=100, help="faults one at a time")
    parser.add_argument(
        "--burst", type=int, default=0, help="faults at once (0: half of the nodes)"
    )
    return parser.parse_args()


def main() -> None:
    chosen = arguments()
    result: dict[str, Any] = {
        "machine": {
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "load": os.getloadavg()[0],
        }
    }
    for nodes in chosen.nodes:
        figures = first_heal.run(nodes, chosen.singles, chosen.burst or nodes // 2)
        result.setdefault("firstHeal", []).append(figures)
    json.dump(result, sys.stdout, indent=1)
    sys.stdout.write("\n")


main()
