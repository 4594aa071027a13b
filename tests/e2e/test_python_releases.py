"""The newest CPython of a Debian release: what README.md offers works there, from a fresh clone.

KUBENODE_DEBIAN  releases, separated by spaces (default: trixie, which has Python 3.13)
KUBENODE_UNIT    what pytest runs there (default: some folders; tests/unit for all)
"""

import json
import os
from collections.abc import Iterator

import pytest
from support.components import HOSTS, require
from support.debian_python import DebianPython

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]

RELEASES = os.environ.get("KUBENODE_DEBIAN", "trixie").split()
UNIT = os.environ.get("KUBENODE_UNIT", "tests/unit/rules tests/unit/runtime tests/unit/fuzzing")


@pytest.fixture(scope="module", params=RELEASES)
def debian(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DebianPython]:
    require(HOSTS)
    machine = DebianPython(request.param, tmp_path_factory.mktemp(request.param) / "kubenode")
    machine.clone()
    yield machine


def test_the_demo_heals_with_both_engines_and_the_unit_tests_pass(debian: DebianPython) -> None:
    demo = debian.run("make", "demo", "ARGS=--for 25s --nodes 60 --seed 7 --json", limit=600)
    assert demo.returncode == 0, demo.stderr[-3000:]
    summary = json.loads(demo.stdout.splitlines()[-1])
    assert (summary["falseActions"], summary["limitViolations"]) == (0, 0)
    assert summary["healed"] > 0
    tools = debian.run("make", "venv", limit=600)
    assert tools.returncode == 0, tools.stderr[-3000:]
    python = "/kubenode/.venv/bin/python"
    options = ("-q", "-n", "2", "-m", "not exhaustive", "-p", "no:cacheprovider")
    unit = debian.run(python, "-m", "pytest", *options, *UNIT.split(), limit=600)
    assert unit.returncode == 0, unit.stdout[-6000:]
