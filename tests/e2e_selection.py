"""Selects the suites of tests/e2e that a change can break. Pure, but for `changed_since`.

A changed path that no entry names, such as one of kubenode/runtime, selects every suite. The suites
that a change does not select take turns: each runs once in ROTATION days.
"""

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

ROTATION: Final = 5
AGENT: Final = ("agent",)
IMAGES: Final = ("images", "charts")
HEAL: Final = ("agent", "remedy", "rules", "defender")
MACHINES: Final = ("agent", "machine", "defender", "kubenode/providers")
VISITOR: Final = ("simulation", "insight", "remedy", "rules", "defender", "docs", "README.md")

SUITES: Final[Mapping[str, tuple[str, ...]]] = {
    "tests/e2e/captain": ("captain",),
    "tests/e2e/dashboard": ("defender", "remedy", "machine", "rules"),
    "tests/e2e/insight": ("insight", "simulation"),
    "tests/e2e/nodes": (*HEAL, "kubenode/providers"),
    "tests/e2e/test_agent_acts.py": AGENT,
    "tests/e2e/test_agent_checks.py": AGENT,
    "tests/e2e/test_agent_components.py": (*AGENT, "machine"),
    "tests/e2e/test_agent_container.py": (*AGENT, *IMAGES),
    "tests/e2e/test_agent_evidence.py": (*AGENT, *IMAGES),
    "tests/e2e/test_agent_fleet.py": (*AGENT, "machine"),
    "tests/e2e/test_agent_hosts.py": ("tests/hosts",),
    "tests/e2e/test_agent_logs.py": AGENT,
    "tests/e2e/test_agent_repairs.py": AGENT,
    "tests/e2e/test_agent_service.py": AGENT,
    "tests/e2e/test_chart_in_pods.py": (*HEAL, *IMAGES, "machine", "docs/install.md"),
    "tests/e2e/test_demo_rollout.py": ("simulation", "machine", "defender"),
    "tests/e2e/test_dnf_components.py": (*AGENT, "machine"),
    "tests/e2e/test_docs_search.py": ("docs", "mkdocs.yml"),
    "tests/e2e/test_first_heal.py": HEAL,
    "tests/e2e/test_image_build.py": IMAGES,
    "tests/e2e/test_local_instances.py": ("kubenode/providers",),
    "tests/e2e/test_local_provider.py": ("kubenode/providers",),
    "tests/e2e/test_machine_import.py": MACHINES,
    "tests/e2e/test_machine_rollout.py": MACHINES,
    "tests/e2e/test_machine_set_hosts.py": (*MACHINES, "remedy"),
    "tests/e2e/test_newcomers_path.py": (*VISITOR, "charts", "CONTRIBUTING.md"),
    "tests/e2e/test_node_join.py": (*MACHINES, "docs/examples"),
    "tests/e2e/test_python_releases.py": ("simulation", "images"),
    "tests/e2e/test_told_heal.py": HEAL,
    "tests/e2e/test_tutorials.py": VISITOR,
}
"""The paths whose changes can break each suite, besides the suite itself."""

APART: Final = (
    ".ci/verified",
    ".gitignore",
    "CHANGELOG.md",
    "LICENSE",
    "NOTICE",
    "devtools",
    "tests/bench",
    "tests/chaos",
    "tests/fuzz",
    "tests/integration",
    "tests/unit",
)
"""What no suite of tests/e2e runs or reads."""


def selected(changed: Iterable[str], day: int) -> frozenset[str]:
    """Return the suites for `changed` paths on `day`, a day's ordinal number."""
    suites = {suite for path in changed for suite in _suites_of(path)}
    return frozenset(suites | in_turn(day))


def in_turn(day: int) -> frozenset[str]:
    """Return the suites whose turn it is on `day` whatever changed."""
    return frozenset(sorted(SUITES)[day % ROTATION :: ROTATION])


def changed_since(commit: str, repository: Path) -> list[str] | None:
    """Return the paths that differ from `commit`, uncommitted and new files included.

    None if the history does not have `commit`, as in a shallow clone.
    """
    differing = _git(repository, "diff", "--name-only", "--no-renames", commit)
    untracked = _git(repository, "ls-files", "--others", "--exclude-standard")
    return None if differing is None or untracked is None else differing + untracked


def _suites_of(path: str) -> Iterable[str]:
    if any(_within(path, part) for part in APART):
        return ()
    suites = [s for s, parts in SUITES.items() if any(_within(path, p) for p in (s, *parts))]
    return suites or SUITES


def _within(path: str, part: str) -> bool:
    return path == part or path.startswith(f"{part}/")


def _git(repository: Path, *words: str) -> list[str] | None:
    command = ("git", "-C", str(repository), *words)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else None
