"""Every row of the vendors' tables is served by a rule or answered, and the page says so.

The tables are data beside the project: without them these tests are skipped by name.
"""

import json
from pathlib import Path

import pytest
from support.command import kubenode

from devtools.rule_coverage import FILE
from kubenode.cli.library import library
from simulation.coverage import folder_of
from simulation.coverage.matches import matches
from simulation.coverage.rows import rows

pytestmark = [pytest.mark.integration, pytest.mark.timeout(420)]
SECONDS = 180.0
"""For all tables of all vendors, on a busy machine."""
DATA = folder_of(None)
needs_data = pytest.mark.skipif(
    not DATA.is_dir(),
    reason=f"no vendor tables in {DATA}: name their folder in KUBENODE_SHARED_DATA",
)
ACTS: dict[str, set[str]] = {
    "notify_only": {"notify"},
    "gpu_reset": {"agent"},
    "cordon_drain_reboot": {"reboot"},
    "cordon_drain_wait_human": {"migrate", "notify"},
    "nvlink5_decode": {"migrate", "notify"},
}
"""A class of repair to the steps that its first rung must have."""
NEVER: dict[str, set[str]] = {
    "notify_only": {"cordon", "migrate", "agent", "reboot", "replace"},
    "cordon_drain_reboot": {"agent", "replace"},
    "cordon_drain_wait_human": {"agent", "reboot", "replace"},
    "nvlink5_decode": {"agent", "reboot", "replace"},
    "gpu_reset": {"reboot", "replace"},
}


@needs_data
def test_the_command_prints_what_the_page_says() -> None:
    result = kubenode("rules", "coverage", "-o", "markdown", limit=SECONDS)
    assert result.returncode == 0, result.stderr
    assert result.stdout == FILE.read_text()
    items = json.loads(kubenode("rules", "coverage", "-o", "json", limit=SECONDS).stdout)
    assert all(item["rules"] or item["confirmed"] or item["because"] for item in items)


@needs_data
def test_each_xid_is_answered_as_the_catalogue_says_we_answer_it() -> None:
    chosen = sorted(library(), key=lambda rule: -rule.spec.priority)
    found: dict[str, int] = {}
    for row in rows(DATA):
        default = row.table.removeprefix("Xid: ")
        if row.table == default or default == "none_observe":
            continue
        for signal in row.signals:
            strongest = next((rule for rule in chosen if matches(rule, signal) == "plain"), None)
            if strongest is None:  # a warning of one detector that another one reports
                continue
            steps = {step.name for step in (strongest.spec.ladder or [])[0].steps}
            assert steps >= ACTS[default], row.name
            assert not steps & NEVER[default], row.name
            found[default] = found.get(default, 0) + 1
    assert set(found) == set(ACTS)


def test_without_the_tables_the_command_says_where_they_should_be(tmp_path: Path) -> None:
    result = kubenode("rules", "coverage", "--data", tmp_path)
    assert result.returncode == 2
    assert str(tmp_path) in result.stderr
    assert "KUBENODE_SHARED_DATA" in result.stderr
