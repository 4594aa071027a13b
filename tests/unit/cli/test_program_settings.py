"""Flags, variables and the file of a program come from one model of its settings."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from kubenode.cli.all_settings import EverythingFlags
from kubenode.cli.app import app
from kubenode.cli.defender_settings import DefenderFlags
from kubenode.cli.machine_settings import MachineFlags
from kubenode.cli.remedy_settings import RemedyFlags
from kubenode.cli.setting_flags import load_program
from kubenode.runtime.settings import SettingsError
from kubenode.runtime.settings_model import (
    Settings,
    declared,
    flag_of,
    key_of,
    spec_of,
    variable_of,
)

RUNNER = CliRunner()
RELEASED = json.loads(Path(__file__).with_name("run_flags.json").read_text(encoding="utf-8"))
"""Flags of earlier commits: names to metavar, help text and panel."""
MODELS: dict[str, type[Settings]] = {
    "all": EverythingFlags,
    "remedy": RemedyFlags,
    "defender": DefenderFlags,
    "machine": MachineFlags,
}
RUN: Any = typer.main.get_command(app)


def options(program: str) -> dict[str, Any]:
    params = RUN.commands["run"].commands[program].params
    return {" ".join([*param.opts, *param.secondary_opts]): param for param in params}


@pytest.mark.parametrize("program", MODELS)
def test_released_flags_keep_names_placeholder_help_and_panel(program: str) -> None:
    now = options(program)
    assert set(now) - set(RELEASED[program]) == {"--config"}
    for names, (metavar, text, panel) in RELEASED[program].items():
        option = now[names]
        assert (option.metavar, option.rich_help_panel) == (metavar, panel), names
        assert text in (None, option.help), "a flag without a text may get one"


@pytest.mark.parametrize("program", MODELS)
def test_a_flag_that_is_not_given_has_no_value(program: str) -> None:
    assert {option.default for option in options(program).values()} == {None}


@pytest.mark.parametrize("program", MODELS)
def test_each_flag_shows_its_variable(program: str) -> None:
    for option in options(program).values():
        assert option.envvar == variable_of(option.name)
        assert option.help


def test_everything_has_each_setting_of_the_programs_that_it_runs_in_its_process() -> None:
    together = set(declared(EverythingFlags))
    between = {name for name in declared(RemedyFlags) if name.startswith("defender_")}
    assert set(declared(RemedyFlags)) - together == between
    assert set(declared(MachineFlags)) - together == between
    shared = {"leader_address", "redis_url", "redis_password_file", "redis_ca_file"}
    assert set(declared(DefenderFlags)) - together == shared, "those of several replicas"


@pytest.mark.parametrize("model", MODELS.values())
def test_no_two_settings_of_a_program_share_a_name(model: type[Settings]) -> None:
    for name_of in (flag_of, key_of, variable_of):
        assert len({name_of(each.name) for each in fields(model)}) == len(fields(model))


@pytest.mark.parametrize("model", MODELS.values())
def test_defaults_pass_their_own_checks(model: type[Settings]) -> None:
    defaults = {each.name: each.default for each in fields(model) if each.default is not None}
    assert load_program(model, defaults) == model()


def written(folder: Path, text: str) -> str:
    path = folder / "settings.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_flag_wins_over_a_variable_over_the_file_over_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBENODE_LISTEN_PORT", "2")
    monkeypatch.setenv("KUBENODE_GUARD_PORT", "2")
    text = "listenPort: 3\nguardPort: 3\ndashboardPort: 3\nlogJson: true\n"
    settings = load_program(
        DefenderFlags, {"config": written(tmp_path, text), "listen_port": 1, "log_json": False}
    )
    ports = settings.listen_port, settings.guard_port, settings.dashboard_port, settings.health_port
    assert ports == (1, 2, 3, 8083)
    assert settings.log_json is False


def test_every_setting_may_stand_in_the_file(tmp_path: Path) -> None:
    lines = [f"{key_of(e.name)}: {json.dumps(e.default)}" for e in fields(EverythingFlags)]
    config = written(tmp_path, "\n".join(lines))
    assert load_program(EverythingFlags, {"config": config}) == EverythingFlags()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("\nlogLvel: debug", r":2:1: logLvel: there is no such setting; did you mean logLevel\?;"),
        ("log-level: debug", r":1:1: log-level: there is no such setting; did you mean logLevel\?"),
        ("log_level: debug", r"log_level: there is no such setting; did you mean logLevel\?"),
        ("logLevel: loud", r":1:1: logLevel='loud': input should be 'debug', 'info', 'warning' or"),
        ("healthPort: many", r":1:1: healthPort='many': input should be a valid integer"),
        ("healthPort: 70000", r"healthPort=70000: input should be less than or equal to 65535"),
        ("healthPort: true", r"healthPort=True: input should be a number; set --health-port or"),
        ("cluster: 7", r"cluster=7: input should be a valid string"),
        ("guardExempt: [a, b]", r"guardExempt=\['a', 'b'\]: input should be a valid string"),
        ("leaseSeconds: 1", r"leaseSeconds=1: input should be greater .*; set KUBENODE_LEASE_SECO"),
        ("leaderAddress: pod-1", r"leaderAddress='pod-1': 'pod-1' does not appear to be an IPv4"),
        ("- logLevel: debug", r"settings.yaml: not a map; write settings as `logLevel: debug`"),
        ("a: 1\n---\nb: 2", r"settings.yaml: 2 YAML documents; write one"),
        ("a: [", r"settings.yaml:1:\d+: not valid YAML"),
        ("logLevel: info\nlogLevel: debug", r"settings.yaml:2:1: not valid YAML: .*duplicate key"),
    ],
)
def test_a_wrong_file_is_refused_with_place_key_value_and_what_is_allowed(
    tmp_path: Path, text: str, error: str
) -> None:
    with pytest.raises(SettingsError, match=error):
        load_program(DefenderFlags, {"config": written(tmp_path, text)})


def test_settings_of_another_program_are_refused_in_the_file(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="redisUrl: there is no such setting"):
        load_program(RemedyFlags, {"config": written(tmp_path, "redisUrl: redis://a")})


@pytest.mark.parametrize("text", ["", "# nothing\n"])
def test_an_empty_file_sets_nothing(tmp_path: Path, text: str) -> None:
    assert load_program(RemedyFlags, {"config": written(tmp_path, text)}) == RemedyFlags()


def run(*words: str, **variables: str) -> Any:
    return RUNNER.invoke(app, ["run", *words], env=variables)


def test_the_command_reads_the_file(tmp_path: Path) -> None:
    config = written(tmp_path, "namespace: ''\n")
    for result in (
        run("remedy", "--config", config),
        run("remedy", KUBENODE_CONFIG=config),
    ):
        assert result.exit_code == 2
        assert f"{config}:1:1: namespace='': string should have at least 1" in result.stderr


def test_a_file_that_does_not_exist_is_named() -> None:
    result = run("remedy", "--config", "/nowhere/settings.yaml")
    assert result.exit_code == 2
    assert "/nowhere/settings.yaml: cannot be read" in result.stderr


@pytest.mark.parametrize("place", ["-n", "--namespace"])
def test_a_flag_of_a_group_wins_over_variable_and_file(place: str, tmp_path: Path) -> None:
    config = written(tmp_path, "namespace: ''\n")
    absent = str(tmp_path / "absent")
    words = [place, "x", "remedy", "--kubeconfig", absent, "--config", config]
    result = run(*words, KUBENODE_NAMESPACE="")
    assert f"kubeconfig {absent}: no such file" in result.stderr


def test_all_wrong_flags_and_variables_are_named_together() -> None:
    words = ["--health-port", "70000", "--http-connections", "few"]
    result = run("defender", *words, KUBENODE_LISTEN_PORT="many")
    assert result.exit_code == 2
    for error in (
        "--health-port='70000': input should be less than or equal to 65535; set --health-port",
        "--http-connections='few': input should be a valid integer",
        "KUBENODE_LISTEN_PORT='many': input should be a valid integer",
    ):
        assert error in result.stderr


def test_settings_without_a_flag_have_a_text() -> None:
    silent = [each for each in fields(EverythingFlags) if not spec_of(each).panel]
    assert {each.name for each in silent} == {
        *("lease_seconds", "request_rate", "request_burst", "gzip"),
    }
    assert all(each.metadata["description"] for each in silent)
