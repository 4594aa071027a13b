"""Runs labelled negatives through the rules: which of them made anybody act?

PYTHONPATH=tests python -m support.negatives_run [--keep]
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from support.benign import acts, engines_of_this_process
from support.figures import keep
from support.negatives import LASTS, START, Negative, crowd, negatives

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.cli.library import library
from rules.diagnose import Diagnoser
from simulation.replay.world import World

TOGETHER = 100
"""Negatives of one fleet, beside as many healthy nodes."""


@dataclass(frozen=True, slots=True)
class Acted:
    """A negative on which a rule did something, or would have (support.benign.acts)."""

    case: Negative
    rule: str
    explanation: str

    def __str__(self) -> str:
        return f"{self.case.what} ({self.case.why}): {self.rule}\n{self.explanation}"


def acted_on(
    cases: Sequence[Negative], rules: Sequence[NodeRemedier], diagnoser: Diagnoser
) -> Iterator[Acted]:
    for number, first in enumerate(range(0, len(cases), TOGETHER)):
        made = crowd(cases[first : first + TOGETHER], number)
        world = World(rules, diagnoser=diagnoser, start=START)
        for name, look in made.looks.items():
            world.add_node(name, look)
        world.feed(*made.entries)
        world.run_until(START + LASTS)
        for job in world.jobs:
            if acts(job) and job.node in made.cases:
                yield Acted(made.cases[job.node], job.remedier, job.explanation)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="for the report of the rules")
    given = parser.parse_args()
    cases = negatives(given.seed)
    found = list(acted_on(cases, *engines_of_this_process(library())))
    for each in found[:20]:
        print(each)  # noqa: T201
    body = {
        "negatives": len(cases),
        "acts": len(found),
        "why": dict(sorted(Counter(case.why for case in cases).items())),
        "seed": given.seed,
        "date": time.strftime("%Y-%m-%d"),
    }
    print(json.dumps(body))  # noqa: T201
    if given.keep:
        keep("negatives", body)


if __name__ == "__main__":
    main()
