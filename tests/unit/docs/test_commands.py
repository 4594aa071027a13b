"""Every command that the documentation shows exists, with its options and as many words."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from support.documented import ROOT, Command, of
from typer._click.exceptions import UsageError
from typer.core import TyperGroup

from kubenode.cli.app import app

BRACKETS = re.compile(r"\[(--[^\]]*)\]…?")
ROOT_COMMAND = typer.main.get_command(app)
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
NAMED_ONLY = {"kubenode …"}


def described(words: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """The words without brackets, first those that must be and then those that may."""
    text = "\x1f".join(words)
    may = [word for part in BRACKETS.findall(text) for word in part.split("\x1f")]
    return [word for word in BRACKETS.sub("", text).split("\x1f") if word], may


def wrong(command: Command) -> Iterator[str]:
    """What `kubenode` would not take of it."""
    words, may = described(command.words[1:])
    at = ROOT_COMMAND
    while words and isinstance(at, TyperGroup):
        if words[0] not in at.commands:
            yield f"no command {words[0]!r} in {at.name!r}"
            return
        at = at.commands[words.pop(0)]
    options = {name for param in at.params for name in (*param.opts, *param.secondary_opts)}
    if unknown := [word for word in [*words, *may] if word[:1] == "-" and word not in options]:
        yield f"no option {unknown} of {at.name!r}"
    elif command.typed:
        try:
            at.make_context(at.name, [*words, *may])
        except UsageError as error:
            yield error.format_message()


@pytest.mark.parametrize("command", of("kubenode"), ids=str)
def test_kubenode_takes_what_the_documentation_shows(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert " ".join(command.words) in NAMED_ONLY or not list(wrong(command))


def unknown(words: list[str], folder: str) -> list[str]:
    """Options that no program of this folder of tests takes."""
    sources = "".join(path.read_text() for path in (ROOT / "tests" / folder).glob("*.py"))
    return [word for word in words if word[:2] == "--" and f'"{word}"' not in sources]


@pytest.mark.parametrize("command", of("make"), ids=str)
def test_make_has_the_target_and_passes_on_what_is_known(command: Command) -> None:
    target, *given = command.words[1:]
    assert target in TARGETS
    words = [word for text in given for word in text.removeprefix("ARGS=").split()]
    if target == "demo":
        assert not list(wrong(Command(command.page, ("kubenode", "demo", *words), typed=True)))
    elif target == "bench":
        benches = {path.stem for path in (ROOT / "tests/bench").glob("*.py")}
        assert {word for word in words[:1] if word[0] != "-"} <= benches
        assert not unknown(words, "bench")
    elif target in ("chaos", "chaos-day"):
        assert not unknown(words, "chaos")
    elif target == "audit":
        assert words in ([], ["--alive"])
    elif target == "bench-compare":
        assert [text.partition("=")[0] for text in given] == ["OLD", "NEW"]
    else:
        assert not given


HELM_FLAGS = {"-n", "--create-namespace", "--wait", "--reuse-values", "--take-ownership"}


def chart_lacks(words: list[str]) -> list[str]:
    """Values of the chart that `--set` names and the schema does not have."""
    schema = json.loads((ROOT / "charts/kubenode/values.schema.json").read_text())
    lacking = []
    for name in (
        words[at + 1].partition("=")[0] for at, word in enumerate(words) if word == "--set"
    ):
        place = schema
        for part in name.split("."):
            place = place.get("properties", {}).get(part, {})
        lacking += [] if place else [name]
    return lacking


@pytest.mark.parametrize("command", of("helm"), ids=str)
def test_helm_installs_this_chart_with_values_that_it_has(command: Command) -> None:
    verb, release, *words = command.words[1:]
    assert verb in ("install", "upgrade", "test", "uninstall")
    assert release == "kubenode"
    if verb in ("install", "upgrade"):
        assert (ROOT / words.pop(0) / "Chart.yaml").exists()
    assert words[words.index("-n") + 1] == "kubenode-system"
    assert {word for word in words if word[0] == "-"} <= HELM_FLAGS | {"--set"}
    assert chart_lacks(words) == []


def test_a_value_that_the_chart_lacks_would_be_seen() -> None:
    assert chart_lacks(["--set", "image.registry=x"]) == ["image.registry"]


def test_a_command_that_is_not_there_would_be_seen() -> None:
    typed = [("kubenode", "machines"), ("kubenode", "job", "list", "--opened")]
    assert all(list(wrong(Command("page", words, typed=True))) for words in typed)
    assert list(wrong(Command("page", ("kubenode", "approve"), typed=True)))
    assert len(of("kubenode")) > 100
