from dataclasses import dataclass

import pytest

from kubenode.runtime.settings import SettingsError, load
from kubenode.runtime.settings_model import Settings, setting


@dataclass(frozen=True)
class Mine(Settings):
    workers: int = setting(8, "How many at once.", "Process", ge=1)


def test_flags_win_over_variables_and_those_over_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBENODE_WORKERS", "3")
    monkeypatch.setenv("KUBENODE_HEALTH_PORT", "9000")
    got = load(Mine, {"workers": 5, "context": None})
    assert (got.workers, got.health_port, got.log_level) == (5, 9000, "info")


def test_a_wrong_flag_is_named_with_its_value_and_the_remedy() -> None:
    with pytest.raises(SettingsError) as caught:
        load(Mine, {"health_port": 70000})
    assert str(caught.value).startswith("--health-port=70000: input should be less than or equal")
    assert "set --health-port or KUBENODE_HEALTH_PORT" in str(caught.value)


def test_a_wrong_variable_is_named_as_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBENODE_WORKERS", "many")
    with pytest.raises(SettingsError, match=r"KUBENODE_WORKERS='many': .*\(How many at once\)"):
        load(Mine)


def test_all_wrong_values_are_told_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        load(Mine, {"workers": 0, "log_level": "loud"})
    assert len(str(caught.value).splitlines()) == 2


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(SettingsError, match="--colour: there is no such setting; there are:"):
        load(Mine, {"colour": "red"})
