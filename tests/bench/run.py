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
from collections.abc import Callable
from types import ModuleType
from typing import Any

from bench import (
    agent,
    drain,
    first_heal,
    flapping,
    flood,
    handover,
    hostdoctor,
    insight,
    insight_year,
    job_cost,
    leases,
    logs,
    members,
    permits,
    registry,
    relist,
    replay,
    rollout,
    rollout_simulated,
    rules,
    steady,
    storm,
    verdict,
    watches,
)

MODULES: tuple[ModuleType, ...] = (
    first_heal,
    steady,
    flapping,
    flood,
    handover,
    registry,
    relist,
    rules,
    replay,
    verdict,
    permits,
    storm,
    drain,
    leases,
    hostdoctor,
    insight,
    insight_year,
    members,
    job_cost,
    agent,
    logs,
    rollout,
    rollout_simulated,
    watches,
)
"""Each has `options(parser)`, which adds its own flags, and `figures(arguments)`."""


def name_of(module: ModuleType) -> str:
    return module.__name__.rpartition(".")[2]


def arguments() -> argparse.Namespace:
    names = [name_of(module) for module in MODULES]
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("benches", nargs="*", metavar="BENCH", help=f"of {', '.join(names)}")
    for module in MODULES:
        module.options(parser)
    chosen = parser.parse_args()
    if unknown := sorted(set(chosen.benches) - set(names)):
        parser.error(f"no benchmark {', '.join(unknown)}: write {', '.join(names)}")
    chosen.benches = chosen.benches or names
    return chosen


def main() -> None:
    chosen = arguments()
    result: dict[str, Any] = {
        "machine": {
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "load": os.getloadavg()[0],
        }
    }
    for module in MODULES:
        if name_of(module) in chosen.benches:
            figures: Callable[[argparse.Namespace], Any] = module.figures
            result[name_of(module)] = figures(chosen)
    json.dump(result, sys.stdout, indent=1)
    sys.stdout.write("\n")


main()
