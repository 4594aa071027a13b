"""Runs the whole suite, part by part: `python tests/run.py [--since COMMIT] [pytest's options]`.

Tests with real components share the cores with each other and wait on real clocks. One of them
that fails beside others runs once more, alone on the machine. It fails if it fails there too;
otherwise the end of the output names it as "passed alone only". Unit tests have no second run,
and no part has one when tests of more than MOST_AGAIN of its files fail.

With --since, the suites of tests/e2e are those that the changes since COMMIT can break, and those
whose turn it is today (e2e_selection.py).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from e2e_selection import SUITES, changed_since, selected

from kubenode.runtime.clock import SystemClock

REPOSITORY = Path(__file__).parents[1]
MOST_AGAIN = 8
NONE_SELECTED = 5
"""What pytest exits with when the options select none of a part."""
ALONE = ("tests/e2e/nodes", "tests/e2e/test_agent_fleet.py")
"""They count the processes of all hosts, or set clocks."""
HOST_WORKERS = "3"
"""Of two cores, a third idles with 2: tests with hosts wait for much."""
OLDEST = (
    "tests/integration/api/test_crds.py",
    "tests/integration/contract/test_custom_resources.py",
    "tests/integration/contract/test_watch.py",
    "tests/integration/machine/test_admission.py",
    "tests/integration/remedy/test_way.py",
    "tests/integration/chart/test_installing.py",
)
"""What the API server decides, heals by rules, and the chart, for the oldest Kubernetes."""


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    tests: tuple[str, ...]
    workers: tuple[str, ...] = ()
    waits: bool = True
    """On clocks and real components, so that it may be looked at again."""
    kubernetes: str = ""
    """A folder of tests/control_plane; "": as the environment says."""

    def of(self, suites: frozenset[str]) -> "Part":
        """Return the part with only `suites` of tests/e2e."""
        if not self.tests[0].startswith("tests/e2e"):
            return self
        ours = {s for s in suites if (s in ALONE) == (self.tests == ALONE)}
        return replace(self, tests=tuple(sorted(ours)))


PARTS = (
    Part("unit", ("tests/unit",), ("-n", "auto"), waits=False),
    Part("integration", ("tests/integration",), ("-n", "3", "--dist", "loadfile")),
    Part(
        "hosts",
        ("tests/e2e", *(f"--ignore={path}" for path in ALONE)),
        ("-n", HOST_WORKERS, "--dist", "loadfile", "--no-loadscope-reorder"),
    ),
    Part("alone", ALONE),
    Part(
        "oldest",
        (*OLDEST, "-k", "not embedded"),
        ("-n", "2", "--dist", "loadfile"),
        kubernetes="oldest",
    ),
)


@dataclass(frozen=True)
class Outcome:
    """What a part ended with: its tests that failed, alone too, and those that passed alone."""

    passed: bool
    failed: tuple[str, ...] = ()
    unsteady: tuple[str, ...] = ()


def run(part: Part, options: list[str]) -> Outcome:
    """Run the part, and its failed tests once more where it allows that."""
    with tempfile.TemporaryDirectory(prefix="kubenode-tests-") as cache:
        if _pytest(part, cache, *part.workers, *part.tests, *options):
            return Outcome(passed=True)
        failed = _failed(Path(cache))
        files = {name.partition("::")[0] for name in failed}
        if not (part.waits and 0 < len(files) <= MOST_AGAIN):
            return Outcome(passed=False, failed=failed)
        say(f"\n{len(failed)} of part {part.name} failed; once more, alone:")
        if _pytest(part, cache, "--last-failed", *part.tests, *options):
            return Outcome(passed=True, unsteady=failed)
        again = _failed(Path(cache))
        unsteady = tuple(name for name in failed if name not in again)
        return Outcome(passed=False, failed=again, unsteady=unsteady)


def _pytest(part: Part, cache: str, *options: str) -> bool:
    command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}", *options]
    variables = {**os.environ}
    if part.kubernetes:
        variables["KUBENODE_KUBERNETES"] = part.kubernetes
    done = subprocess.run(command, cwd=REPOSITORY, env=variables, check=False)
    return done.returncode in {0, NONE_SELECTED}


def _failed(cache: Path) -> tuple[str, ...]:
    stored = cache / "v/cache/lastfailed"
    return tuple(sorted(json.loads(stored.read_text()))) if stored.exists() else ()


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def parts(since: str | None) -> list[Part]:
    """Return the parts to run for the changes since a commit, which need not exist."""
    changed = changed_since(since, REPOSITORY) if since else None
    if changed is None:
        return list(PARTS)
    suites = selected(changed, SystemClock().now().toordinal())
    for suite in sorted(SUITES.keys() - suites):
        say(f"not selected by the changes since {since}: {suite}")
    return [chosen for part in PARTS if (chosen := part.of(suites)).tests]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    parser.add_argument("--since")
    known, options = parser.parse_known_args(arguments)
    outcomes = {part.name: run(part, options) for part in parts(known.since)}
    for outcome in outcomes.values():
        for name in outcome.unsteady:
            say(f"passed alone only: {name}")
        for name in outcome.failed:
            say(f"failed: {name}")
    broken = [name for name, outcome in outcomes.items() if not outcome.passed]
    say(f"failed parts: {', '.join(broken)}" if broken else "all parts passed")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
