"""Commands of the simulation where it is not installed, as in a production image."""

import sys

import pytest
from typer.testing import CliRunner

from kubenode.cli.app import app
from kubenode.cli.exits import Exit

NEEDING: tuple[tuple[str, ...], ...] = (
    ("demo",),
    ("record",),
    ("rules", "test", "any.test.yaml"),
    ("rules", "replay", "--from", "any.jsonl"),
    ("rules", "cases", "any.jsonl"),
    ("rules", "coverage"),
    ("rules", "explain", "--node", "n", "--rule", "r", "--from", "any.jsonl"),
    ("rules", "schema", "--kind", "RuleTest"),
)


@pytest.fixture
def without_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "simulation", None)
    monkeypatch.delitem(sys.modules, "kubenode.cli.simulation", raising=False)


@pytest.mark.parametrize("words", NEEDING, ids=" ".join)
@pytest.mark.usefixtures("without_simulation")
def test_command_refuses_and_says_how_to_get_it_when_simulation_is_missing(
    words: tuple[str, ...],
) -> None:
    told = CliRunner().invoke(app, words)
    assert told.exit_code == Exit.USAGE
    assert "needs the simulation" in told.stderr
    assert "kubenode-simulation" in told.stderr


@pytest.mark.usefixtures("without_simulation")
def test_other_commands_work_when_simulation_is_missing() -> None:
    told = CliRunner().invoke(app, ["rules", "schema", "--kind", "NodeRemedier"])
    assert told.exit_code == Exit.FINE
    assert '"NodeRemedier' in told.stdout


def test_error_inside_the_simulation_is_not_taken_for_a_missing_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "simulation.commands", None)
    monkeypatch.delattr("simulation.commands", raising=False)
    monkeypatch.delitem(sys.modules, "kubenode.cli.simulation", raising=False)
    told = CliRunner().invoke(app, ["rules", "coverage"])
    assert isinstance(told.exception, ImportError)
