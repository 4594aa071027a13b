"""The commands of the documentation, run: where they need a cluster, on an embedded API server.

Run in this process, each as it stands in its block, with the names of what is there in the place of
NAME, NODE and the like. What none of them may end with is a traceback or an error of usage; what
only reads ends well.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from support.defender_objects import job_object, node_object, permit_object, policy_object
from support.documented import BLOCK, ROOT, Command, of
from support.embedded import EmbeddedPlane
from typer.testing import CliRunner, Result

from kubenode.cli.app import app
from kubenode.cli.cluster import crds
from kubenode.runtime.clock import SystemClock
from simulation.demo.server import signing

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]
ELSEWHERE = {
    ("run",): "tests/integration/cli/test_command.py",
    ("uninstall",): "tests/integration/cli/test_uninstall.py",
    ("machine", "import"): "tests/integration/machine/test_importing.py",
    ("machine", "export"): "tests/e2e/test_machine_import.py",
    ("machine", "token"): "tests/integration/machine/test_importing.py",
    ("job", "run"): "tests/integration/cli/test_jobs.py",
    ("diagnose",): "tests/integration/cli/test_diagnose.py",
    ("bundle",): "tests/integration/cli/test_bundle.py",
    ("rules", "install"): "tests/integration/cli/test_rules_install.py",
    ("providers", "check"): "tests/integration/providers",
    ("defender", "simulate"): "tests/integration/cli/test_defender_status.py",
    ("component", "plan"): "tests/integration/machine/componentset",
    ("insight",): "tests/integration/insight/test_program.py",
    ("member", "import"): "tests/integration/captain/test_members.py",
    ("member", "remove"): "tests/integration/captain/test_members.py",
    ("member", "renew"): "tests/integration/captain/test_members.py",
    ("release", "explain"): "tests/integration/captain/test_releases.py",
    ("watch",): "tests/integration/cli/test_watch.py",
    ("dashboard",): "tests/integration/cli/test_dashboard.py",
}
"""They serve until they are stopped, or need a host, an operator or files of a site."""
READS = {"list", "sets", "events", "explain", "lint", "test", "schema", "replay"}
JOB, NODE, MACHINE, RULE = "job-n00042", "n00042", "sh-113", "disk-wearing-out"
NAMES = {
    "machine": {"NAME": MACHINE},
    "permit": {"NAME": "p1"},
    "component": {"NAME": "containerd", "SET": "containerd", "DIGEST": "a" * 64},
    "": {
        "n00009": NODE,
        "NAME": JOB,
        "JOB": JOB,
        "w1-0f789fe0c5": JOB,
        "NODE": NODE,
        "RULE": RULE,
        "$NODE": NODE,
    },
}
OURS = {"knj", "knm", "knms", "knms,kncl", "noderemediers", "permits", "hostevents", "noderemedier"}
OURS |= {"remedyoperationjobs", "defenderpolicies", "defenderpolicy"}
TUTORIAL = BLOCK.findall((ROOT / "docs/tutorial-first-rule.md").read_text())


def example(kind: str, page: str = "docs/overview.md") -> Any:
    """The last object of the kind that the page shows."""
    shown = [text for text in BLOCK.findall((ROOT / page).read_text()) if f"kind: {kind}\n" in text]
    return YAML(typ="safe").load(shown[-1])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the tutorial, where it says that they are saved."""
    folder = tmp_path_factory.mktemp("site")
    rules = folder / "my-rules"
    (rules / "tests").mkdir(parents=True)
    drafts = [text for text in TUTORIAL if "kind: NodeRemedier" in text]
    (folder / "draft.yaml").write_text(drafts[0])
    (rules / f"{RULE}.yaml").write_text(drafts[-1])
    tests = next(text for text in TUTORIAL if text.startswith("rules: ["))
    (rules / f"tests/{RULE}.test.yaml").write_text(tests)
    (folder / "worn.jsonl").write_text(next(text for text in TUTORIAL if '"lifecycle"' in text))
    return folder


@pytest.fixture(scope="module")
def plane() -> Iterator[EmbeddedPlane]:
    """A node with a job, a permit and a host of its own, the rule and a set of components."""
    now = SystemClock().now()
    machine = {"apiVersion": "kubenode.io/v1alpha1", "kind": "Machine"}
    objects = [
        node_object(NODE),
        node_object("n00043"),
        policy_object(limits=[{"scope": "Cluster", "maxConcurrent": 2}]),
        job_object(NODE, now, phase="AwaitingApproval"),
        permit_object("p1", "n00043", now),
        machine | {"metadata": {"name": MACHINE}, "spec": {"addresses": ["10.2.7.113"]}},
        example("NodeRemedier", "docs/tutorial-first-rule.md"),
        example("MachineComponentSet"),
    ]
    with EmbeddedPlane(crds=crds(), mutators=signing(SystemClock())) as plane:
        plane.api.load(json.loads(json.dumps(objects)))
        yield plane


def leaf(command: Command) -> tuple[str, ...]:
    """The command without its options and names."""
    return tuple(word for word in command.words[1:3] if word.islower() and word[0] != "-")


def unique(commands: list[Command]) -> list[Command]:
    """Those of blocks, each once, whatever pages show it."""
    found = {command.words: command for command in commands if command.typed}
    return list(found.values())


def run_here(command: Command) -> bool:
    return "--url" not in command.words and not any(
        leaf(command)[: len(other)] == other for other in ELSEWHERE
    )


def named(command: Command) -> list[str]:
    """Its words with the names of what is there."""
    names = NAMES[""] | next((NAMES[word] for word in command.words if word in NAMES), {})
    return [names.get(word, word) for word in command.words[1:]]


def invoke(plane: EmbeddedPlane, site: Path, words: list[str]) -> Result:
    home = str(site)
    (site / ".kube").mkdir(exist_ok=True)
    (site / ".kube/config").write_text(plane.kubeconfig.read_text())
    words = [word.replace("~", home, 1) if word[:1] == "~" else word for word in words]
    clean = {name: None for name in os.environ if name.startswith("KUBE")}
    environment = clean | {"KUBECONFIG": str(plane.kubeconfig), "HOME": home}
    return CliRunner().invoke(app, words, env=environment)


@pytest.mark.parametrize("command", [c for c in unique(of("kubenode")) if run_here(c)], ids=str)
def test_it_runs(
    command: Command, plane: EmbeddedPlane, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(site)
    result = invoke(plane, site, named(command))
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(
        result.exception
    )
    assert result.exit_code in ((0,) if READS & set(leaf(command)) else (0, 1)), result.output


def test_the_first_draft_of_the_tutorial_has_one_error(plane: EmbeddedPlane, site: Path) -> None:
    result = invoke(plane, site, ["rules", "lint", str(site / "draft.yaml")])
    assert result.exit_code == 1
    assert len([line for line in result.output.splitlines() if ": error: " in line]) == 1


def test_what_is_not_run_here_is_run_elsewhere() -> None:
    assert [path for path in ELSEWHERE.values() if not (ROOT / path).exists()] == []
    assert len([c for c in unique(of("kubenode")) if run_here(c)]) > 20


def test_objects_of_ours_are_listed_as_the_documentation_says(plane: EmbeddedPlane) -> None:
    names = {"$NODE": NODE, "JOB": JOB, "NAME": "none"}
    failed = []
    asked = {command.words for command in of("kubectl") if command.words[1] == "get"}
    for words in sorted(words for words in asked if words[2] in OURS and "-w" not in words):
        given = [word.replace("$NODE", NODE) for word in words[1:]]
        result = plane.kubectl(*(names.get(word, word) for word in given), check=False)
        if result.returncode and "(NotFound)" not in result.stderr:
            failed.append((words, result.stderr))
    assert len(asked) > 20
    assert failed == []
