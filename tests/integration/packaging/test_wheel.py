"""Both wheels, in environments that hold what the images hold: all that they need is there."""

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

from agent.packages.build import project_version, sources
from images.closure import lists

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[3]
NAMES = {path.stem: text.split() for path, text in lists().items()}
CHOSEN = re.compile(
    r"\| +((?:redis|boto3|azure|sushy|asyncssh|opentelemetry\.sdk)(?:\.\w+)*)$", re.M
)
PACKAGES = ("agent", "captain", "defender", "insight", "kubenode", "machine", "remedy", "rules")
IMPORTS = re.compile(r"^\s*(?:from|import) (?:simulation|devtools)\b", re.M)
DATA = ROOT / "tests" / "data" / "cases"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    sources = (str(ROOT), str(ROOT / "simulation"))
    subprocess.run([*pip, "-w", str(folder), *sources], check=True, timeout=200)
    return folder


@pytest.fixture(scope="module")
def wheel(wheels: Path) -> Path:
    (made,) = wheels.glob("kubenode-*.whl")
    return made


@pytest.fixture(scope="module")
def simulation_wheel(wheels: Path) -> Path:
    (made,) = wheels.glob("kubenode_simulation-*.whl")
    return made


@pytest.fixture(scope="module")
def everything(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CleanVenv]:
    venv = CleanVenv(tmp_path_factory.mktemp("kubenode") / "venv", NAMES["kubenode"])
    venv.install(wheel)
    yield venv


@pytest.fixture(scope="module")
def with_simulation(
    wheel: Path, simulation_wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CleanVenv]:
    venv = CleanVenv(tmp_path_factory.mktemp("simulation") / "venv", NAMES["kubenode"])
    venv.install(wheel)
    venv.install(simulation_wheel)
    yield venv


def files_of(wheel: Path) -> dict[str, bytes]:
    """Content by path; without the metadata of the distribution."""
    with zipfile.ZipFile(wheel) as file:
        names = [name for name in file.namelist() if not name.endswith("/")]
        return {name: file.read(name) for name in names if ".dist-info/" not in name}


def tracked(*folders: str) -> set[str]:
    asked = ["git", "ls-files", "--", *folders]
    listed = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True)
    return {name for name in listed.stdout.split() if (ROOT / name).exists()}


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
    wanted = {name for name in tracked(*PACKAGES) if not name.startswith("agent/packages/")}
    assert wanted == set(files_of(wheel))


def test_production_wheel_contains_no_simulation_and_no_generator(wheel: Path) -> None:
    held = files_of(wheel)
    assert {name.partition("/")[0] for name in held} == set(PACKAGES)
    python = {name: text.decode() for name, text in held.items() if name.endswith(".py")}
    importing = {name for name, text in python.items() if IMPORTS.search(text)}
    assert importing == {"kubenode/cli/simulation.py"}


def test_simulation_wheel_contains_every_file_of_the_simulation_and_no_generator(
    simulation_wheel: Path,
) -> None:
    held = files_of(simulation_wheel)
    assert set(held) - {"simulation/LICENSE"} == tracked("simulation") - {
        "simulation/pyproject.toml"
    }
    assert not [name for name, text in held.items() if re.search(rb"^from devtools\b", text, re.M)]


def test_both_commands_answer_and_the_library_comes_with_them(
    everything: CleanVenv, tmp_path: Path
) -> None:
    for command in ("kubenode", "kubectl-kubenode"):
        told = ran(everything, command, "version", at=tmp_path)
        assert told.stdout == f"kubenode {project_version()}\n", told.stderr
    kinds = ran(everything, "kubenode", "crds", at=tmp_path)
    assert "name: noderemediers.kubenode.io" in kinds.stdout, kinds.stderr
    linted = str(everything.site / "rules/library/storage/disk-pressure.yaml")
    checked = ran(everything, "kubenode", "rules", "lint", linted, at=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    helped = ran(everything, "kubenode", "run", "agent", "--help", at=tmp_path)
    assert "CONFIG is a TOML file" in helped.stdout, helped.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("demo",),
        ("record",),
        ("rules", "test", "any.test.yaml"),
        ("rules", "replay", "--from", "any.jsonl"),
        ("rules", "cases", "any.jsonl"),
        ("rules", "coverage"),
        ("rules", "explain", "--node", "n", "--rule", "r", "--from", "any.jsonl"),
        ("rules", "schema", "--kind", "RuleTest"),
    ],
    ids=" ".join,
)
def test_production_image_refuses_a_command_of_the_simulation_and_says_how_to_get_it(
    words: tuple[str, ...], everything: CleanVenv, tmp_path: Path
) -> None:
    refused = ran(everything, "kubenode", *words, at=tmp_path)
    assert refused.returncode == 2
    assert "kubenode: this command needs the simulation" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_commands_of_the_simulation_run_from_both_wheels(
    with_simulation: CleanVenv, tmp_path: Path
) -> None:
    library = str(with_simulation.site / "rules/library/storage/disk-pressure.test.yaml")
    tested = ran(with_simulation, "kubenode", "rules", "test", library, at=tmp_path)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    scored = ran(
        with_simulation, "kubenode", "rules", "cases", str(DATA / "fresh.jsonl"), "-o", "table",
        at=tmp_path,
    )  # fmt: skip
    assert scored.returncode == 0, scored.stdout + scored.stderr
    schema = ran(with_simulation, "kubenode", "rules", "schema", "--kind", "RuleTest", at=tmp_path)
    assert json.loads(schema.stdout)["title"] == "Rule tests of KubeNode"


def test_the_demo_runs_from_both_wheels(with_simulation: CleanVenv, tmp_path: Path) -> None:
    shown = ran(
        with_simulation, "kubenode", "demo", "--for", "5s", "--nodes", "12", "--json", at=tmp_path
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
    held = [path for path in venv.site.rglob("*.py") if not path.is_symlink()]
    ours = [path for path in held if path.is_relative_to(venv.site / "agent")]
    assert ours and not [path for path in ours if "simulated" in path.name]
    assert not (venv.site / "simulation").exists() and not (venv.site / "devtools").exists()
    helped = ran(venv, "python", "-m", "agent", "--help", at=tmp_path)
    assert "CONFIG is a TOML file" in helped.stdout, helped.stderr
    told = ran(
        venv, "python", "-c", "from agent.version import version; print(version())", at=tmp_path
    )
    assert told.stdout == f"{project_version()}\n"
    loaded = "import agent.main, agent.agent, re2, pynvml"
    assert ran(venv, "python", "-c", loaded, at=tmp_path).returncode == 0
