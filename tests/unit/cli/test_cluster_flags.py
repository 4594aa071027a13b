"""Flags as users of kubectl expect them: at every level, without types for switches."""

from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from kubenode.api.v1alpha1.hostevent import HostEventClass
from kubenode.api.v1alpha1.remedyoperationjob import JobPhase
from kubenode.cli.app import app

RUNNER = CliRunner()
FLAGS = ("--kubeconfig", "--context", "--namespace")


def missing_file(tmp_path: Path, name: str) -> str:
    return str(tmp_path / name)


def run(*words: str, **variables: str) -> Any:
    return RUNNER.invoke(app, list(words), env={"KUBENODE_KUBECONFIG": None, **variables})


@pytest.mark.parametrize(
    "place",
    [
        ("--kubeconfig", "{}", "job", "list"),
        ("job", "--kubeconfig", "{}", "list"),
        ("job", "list", "--kubeconfig", "{}"),
        ("--context", "x", "-n", "y", "job", "list", "--kubeconfig", "{}"),
        ("job", "list", "-n", "y", "--kubeconfig", "{}"),
        ("--kubeconfig", "{}", "defender", "fleet", "forget", "c", "--why", "gone"),
        ("--kubeconfig", "{}", "run", "remedy"),
    ],
    ids=" ".join,
)
@pytest.mark.exhaustive
def test_the_cluster_may_be_named_before_and_after_the_subcommand(
    place: tuple[str, ...], tmp_path: Path
) -> None:
    file = missing_file(tmp_path, "absent")
    result = run(*(word.format(file) for word in place))
    assert result.exit_code == 2, result.output
    assert f"kubeconfig {file}: no such file" in result.stderr


def test_the_deepest_flag_wins_and_any_flag_wins_over_the_environment(tmp_path: Path) -> None:
    outer, inner, variable = (missing_file(tmp_path, name) for name in ("o", "i", "v"))
    both = run("--kubeconfig", outer, "job", "list", "--kubeconfig", inner)
    assert inner in both.stderr and outer not in both.stderr
    group = run("--kubeconfig", outer, "job", "list", KUBENODE_KUBECONFIG=variable)
    assert outer in group.stderr and variable not in group.stderr
    environment = run("job", "list", KUBENODE_KUBECONFIG=variable)
    assert variable in environment.stderr


def leaves(command: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    below = getattr(command, "commands", {})
    if not below:
        return [(path, command)]
    return [leaf for name, each in below.items() for leaf in leaves(each, (*path, name))]


LEAVES = dict(leaves(typer.main.get_command(app)))
CONNECTED = [p for p, c in LEAVES.items() if any("--kubeconfig" in o.opts for o in c.params)]


@pytest.mark.parametrize("path", CONNECTED, ids=" ".join)
def test_each_command_that_connects_accepts_the_three_flags(path: tuple[str, ...]) -> None:
    names = {name for param in LEAVES[path].params for name in param.opts}
    assert {*FLAGS, "-n"} <= names


def test_most_commands_connect() -> None:
    assert len(CONNECTED) > 30


@pytest.mark.parametrize("path", [("job", "list"), ("rules", "lint"), ("run", "all"), ()])
def test_help_names_no_type_for_switches(path: tuple[str, ...]) -> None:
    assert "bool>" not in run(*path, "--help").output


def test_version_is_a_flag() -> None:
    assert run("--version").output == run("version").output
    assert run("--version").output.startswith("kubenode 0.")


def test_an_enumeration_accepts_any_case_and_lists_its_values_for_a_typo(tmp_path: Path) -> None:
    absent = missing_file(tmp_path, "absent")
    assert absent in run("job", "list", "-o", "JSON", "--kubeconfig", absent).stderr
    assert (
        absent in run("rules", "install", "gpu", "--mode", "dryrun", "--kubeconfig", absent).stderr
    )
    typo = run("rules", "install", "gpu", "--mode", "dry")
    assert typo.exit_code == 2
    assert all(mode in typo.output for mode in ("enforce", "approve", "dryrun", "off"))
    shown = "".join(run("rules", "install", "--help").output.split())
    assert "Enforce|Approve|DryRun|Off" in shown


@pytest.mark.parametrize("phase", ["running", "RUNNING", "needshuman"])
def test_a_phase_may_be_written_in_any_case(phase: str, tmp_path: Path) -> None:
    absent = missing_file(tmp_path, "absent")
    result = run("job", "list", "--phase", phase, "--kubeconfig", absent)
    assert f"kubeconfig {absent}" in result.stderr


def test_a_phase_that_does_not_exist_is_a_usage_error_that_lists_the_phases() -> None:
    result = run("job", "list", "--phase", "runing")
    assert result.exit_code == 2
    assert all(phase in result.stderr for phase in JobPhase)


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("kubenode job list --phase ", list(JobPhase)),
        ("kubenode events --class ", list(HostEventClass)),
        ("kubenode job ", ["list", "show"]),
        ("kubenode rules install --mode ", ["DryRun", "Enforce"]),
    ],
)
def test_a_shell_completes_commands_and_values(words: str, values: list[str]) -> None:
    result = RUNNER.invoke(
        app,
        [],
        prog_name="kubenode",
        env={
            "_KUBENODE_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
        },
    )
    assert set(values) <= set(result.output.split())


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("bash", "complete -o default -F _kubenode_completion kubenode"),
        ("zsh", "#compdef kubenode"),
        ("fish", "complete --command kubenode"),
    ],
)
def test_the_completion_script_of_each_shell_is_printed(
    shell: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("_KUBENODE_COMPLETE", raising=False)
    result = run("completion", shell)
    assert result.exit_code == 0
    assert line in result.output


def test_flags_of_programs_are_shown_in_panels() -> None:
    shown = run("run", "all", "--help").output
    for panel in ("Cluster", "Admission webhook", "Host Doctor", "Dashboard", "Machines"):
        assert f"─ {panel}" in shown
