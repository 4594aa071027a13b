"""What can be said of the images without building one."""

import re
import shutil
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from support.containerfile import read

from agent.packages.pins import NEEDS
from images.closure import lists

ROOT = Path(__file__).parents[3]
IMAGES = ROOT / "images"
ARGUMENTS, STAGES = read(IMAGES / "Containerfile")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROGRAMS = ("remedy", "defender", "machine")
SHIPPED = (*PROGRAMS, "agent", "kubenode")
DAEMONSET = ROOT / "charts/kubenode/agent/daemonset.yaml"


def test_each_process_has_an_image_and_the_one_with_everything_is_built_by_default() -> None:
    assert set(SHIPPED) <= set(STAGES)
    assert list(STAGES)[-1] == "kubenode"


def test_no_image_is_named_so_that_whoever_builds_pins_what_is_built_on() -> None:
    assert {each.text for each in ARGUMENTS} == {"BUILDER", "BASE", "AGENT_BASE"}
    for stage in STAGES.values():
        assert stage.base in STAGES or stage.base.strip("${}") in {a.text for a in ARGUMENTS}


def test_nothing_is_fetched_but_what_the_lock_has_and_no_compiler_is_shipped() -> None:
    assert "://" not in (IMAGES / "Containerfile").read_text()
    for name, stage in STAGES.items():
        assert not [each for each in stage.own if each.word == "ADD"]
        runs = [each.text for each in stage.own if each.word == "RUN"]
        made = name.removesuffix("-venv")
        assert runs == ([f"sh images/venv.sh {made} /opt/kubenode"] if made != name else [])
    for name in SHIPPED:
        assert not [each for each in STAGES[name].all if each.word == "RUN"], "made elsewhere"


def test_every_environment_is_made_with_the_age_of_its_files() -> None:
    """`podman build` passes an argument to its own stage only; a variable is inherited."""
    for name in ("kubenode-venv", "defender-venv", "agent-venv"):
        assert STAGES[name].last("ENV").text == "SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH}"


@pytest.mark.parametrize("name", SHIPPED)
def test_an_image_holds_one_environment_that_is_first_in_its_path(name: str) -> None:
    copied = [each.words for each in STAGES[name].all if each.word == "COPY"]
    made = {"agent": "agent", "defender": "defender"}.get(name, "kubenode")
    assert copied == [[f"--from={made}-venv", "/opt/kubenode", "/opt/kubenode"]]
    variables = dict(word.split("=", 1) for word in STAGES[name].last("ENV").words)
    assert variables["PATH"].startswith("/opt/kubenode/bin:")
    assert variables["PYTHONSAFEPATH"] == "1"


@pytest.mark.parametrize("name", SHIPPED)
def test_an_image_starts_its_program_as_the_user_of_the_chart(name: str) -> None:
    stage = STAGES[name]
    if name == "agent":
        pod = next(YAML(typ="safe").load_all(DAEMONSET.read_text()))["spec"]["template"]["spec"]
        assert stage.last("USER").text == "0:0"
        assert pod["containers"][0]["securityContext"]["runAsUser"] == 0, "also in an image of all"
        assert stage.last("ENTRYPOINT").words == ["python3", "-m", "agent"]
        return
    helpers = (ROOT / "charts/kubenode/templates/_helpers.tpl").read_text()
    users = re.findall(r"^runAs(?:User|Group): (\d+)$", helpers, re.MULTILINE)
    assert stage.last("USER").text.split(":") == users
    assert stage.last("ENTRYPOINT").words == ["kubenode"]
    assert "kubenode" in PROJECT["project"]["scripts"]
    assert stage.last("CMD").words == ["run", name if name in PROGRAMS else "all"]


def test_the_builder_gets_all_that_a_wheel_is_made_of_and_no_more() -> None:
    copied = [each.words for each in STAGES["sources"].own if each.word == "COPY"]
    folders = {words[0] for words in copied if len(words) == 2 and words[0] == words[1]}
    assert folders == set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    files = {word for words in copied for word in words[:-1]} - folders
    ignored = [line for line in (IMAGES / "Containerfile.dockerignore").read_text().splitlines()]
    for file in files:
        assert list(ROOT.glob(file)), f"{file} is not there"
    for name in (*files, *folders):
        assert not [pattern for pattern in ignored if fnmatch(name, pattern)]


def test_no_image_is_built_from_the_simulation_or_the_generators() -> None:
    copied = {word for stage in STAGES.values() for each in stage.own for word in each.words}
    assert {"agent", "kubenode"} <= copied
    assert not {"simulation", "devtools", "."} & copied
    assert '-w "$work/wheels" "$checkout"' in (IMAGES / "venv.sh").read_text()
    assert not {"simulation", "devtools"} & set((IMAGES / "venv.sh").read_text().split())


def test_the_lists_are_what_the_programs_need_now() -> None:
    assert {path: path.read_text() for path in lists()} == lists(), "make docs"


def test_an_image_has_no_tool_of_development_and_the_agents_only_its_own() -> None:
    names = {path.stem: set(text.split()) for path, text in lists().items()}
    tools = {"pip", "pytest", "mypy", "hypothesis", "moto", "playwright", "ruff"}
    assert not tools & (names["kubenode"] | names["agent"])
    assert {"boto3", "azure-identity", "sushy", "asyncssh"} <= names["kubenode"] - names["defender"]
    assert set(NEEDS) <= names["agent"]
    assert not {"kubernetes", "pydantic", "durable-rules"} & names["agent"]
    assert names["agent"] | names["defender"] <= names["kubenode"], "it can stand in for each"


def test_a_list_that_the_lock_does_not_cover_ends_the_build(tmp_path: Path) -> None:
    shutil.copytree(IMAGES, tmp_path / "images")
    (tmp_path / "requirements.lock").write_text("hatchling==1.0 \\\n    --hash=sha256:00\n")
    done = subprocess.run(
        ["sh", str(tmp_path / "images/venv.sh"), "agent", str(tmp_path / "made")],
        env={"PATH": "/usr/bin:/bin", "SOURCE_DATE_EPOCH": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "requirements.lock lacks setuptools" in done.stderr
    assert not (tmp_path / "made").exists()
