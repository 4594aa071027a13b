"""A missing component is never quiet: it skips by name, and in CI it fails."""

import pytest
from support import components
from support.components import MissingComponent, check, require


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CI", raising=False)


@pytest.mark.parametrize(("component", "package"), components.PACKAGES.items())
def test_missing_program_is_named_with_its_package(component: str, package: str) -> None:
    with pytest.raises(MissingComponent, match=f"no {component}: apt-get install {package}"):
        check(component)


def test_missing_component_skips_by_name() -> None:
    with pytest.raises(pytest.skip.Exception, match="no redis-server"):
        require("redis-server")


def test_missing_component_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="CI must have it: no redis-server"):
        require("redis-server")
