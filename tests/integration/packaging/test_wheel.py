"""The wheel, in environments that hold what the images hold: everything that it needs is there."""

import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.clean_venv import CleanVenv
from support.command import environment

from agent.deb.build import project_version, sources
from images.closure import lists

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[3]
NAMES = {path.stem: text.split() for path, text in lists().items()}
CHOSEN = re.compile(
    r"\| +((?:redis|boto3|azure|sushy|asyncssh|opentelemetry\.sdk)(?:\.\w+)*)$", re.M
)
PACKAGES = ("agent", "defender", "kubenode", "machine", "remedy", "rules")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "-w", str(folder), str(ROOT)], check=True, timeout=200)
    (made,) = folder.glob("kubenode-*.whl")
    return made


@pytest.fixture(scope="module")
def everything(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CleanVenv]:
    venv = CleanVenv(tmp_path_factory.mktemp("kubenode") / "venv", NAMES["kubenode"])
    venv.install(wheel)
    yield venv


def ran(venv: CleanVenv, *words: str, at: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """A program of the environment, from a folder where there is nothing of this checkout."""
    variables = environment(PYTHONSAFEPATH="1", HOME=str(at), **more)
    return subprocess.run(
        [str(venv.folder / "bin" / words[0]), *words[1:]],
        cwd=at,
        env={name: value for name, value in variables.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


def test_it_holds_every_file_of_the_programs_but_for_what_makes_the_agents_package(
    wheel: Path,
) -> None:
    asked = ["git", "ls-files", "--", *PACKAGES]
    listed = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True)
    wanted = {name for name in listed.stdout.split() if not name.startswith("agent/deb/")}
    wanted = {name for name in wanted if (ROOT / name).exists()}
    with zipfile.ZipFile(wheel) as file:
        held = {name for name in file.namelist() if not name.endswith("/")}
    assert not wanted - held
    assert not {name for name in held if name.startswith(("agent/deb/", "tests/", "images/"))}


def test_both_commands_answer_and_the_library_comes_with_them(
    everything: CleanVenv, tmp_path: Path
) -> None:
    for command in ("kubenode", "kubectl-kubenode"):
        told = ran(everything, command, "version", at=tmp_path)
        assert told.stdout == f"kubenode {project_version()}\n", told.stderr
    kinds = ran(everything, "kubenode", "crds", at=tmp_path)
    assert "name: noderemediers.kubenode.io" in kinds.stdout, kinds.stderr
    library = str(everything.site / "rules/library/storage/disk-pressure.test.yaml")
    tested = ran(everything, "kubenode", "rules", "test", library, at=tmp_path)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    helped = ran(everything, "kubenode", "run", "agent", "--help", at=tmp_path)
    assert "CONFIG is a TOML file" in helped.stdout, helped.stderr


def test_the_demo_runs_from_it(everything: CleanVenv, tmp_path: Path) -> None:
    shown = ran(
        everything, "kubenode", "demo", "--for", "5s", "--nodes", "12", "--json", at=tmp_path
    )
    assert shown.returncode == 0, shown.stderr
    summary = json.loads(shown.stdout.splitlines()[-1])
    assert summary["nodes"] == 12
    assert summary["falseActions"] == 0


@pytest.mark.parametrize("program", ["defender", "remedy", "machine"])
def test_a_program_starts_from_what_its_image_holds(
    program: str, everything: CleanVenv, tmp_path: Path
) -> None:
    """As far as its kubeconfig: all that it stands on is imported before that is looked at, and
    nothing that only some installations set up.
    """
    venv, asks = everything, {"KUBENODE_DEFENDER_URL": "https://defender"}
    if program == "defender":
        venv, asks = CleanVenv(tmp_path / "venv", NAMES["defender"]), {}
        for package in PACKAGES:
            (venv.site / package).symlink_to(everything.site / package)
    missing = str(tmp_path / "missing")
    words = ["-X", "importtime", "-c", "from kubenode.cli import main; main()", "run", program]
    said = ran(venv, "python", *words, "--kubeconfig", missing, at=tmp_path, **asks)
    assert f"kubeconfig {missing}: no such file" in said.stderr
    assert said.returncode == 2
    assert not CHOSEN.findall(said.stderr)


def test_the_agent_starts_from_what_its_image_holds(tmp_path: Path) -> None:
    venv = CleanVenv(tmp_path / "venv", NAMES["agent"])
    sources(venv.site, project_version())
    assert not (venv.folder / "bin/kubenode").exists()
    helped = ran(venv, "python", "-m", "agent", "--help", at=tmp_path)
    assert "CONFIG is a TOML file" in helped.stdout, helped.stderr
    told = ran(
        venv, "python", "-c", "from agent.version import version; print(version())", at=tmp_path
    )
    assert told.stdout == f"{project_version()}\n"
    loaded = "import agent.main, agent.agent, re2, pynvml"
    assert ran(venv, "python", "-c", loaded, at=tmp_path).returncode == 0
