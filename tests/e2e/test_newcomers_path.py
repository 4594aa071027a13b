"""What somebody does on the first day, from a fresh clone, with nothing but what the pages say.

The demo. The chart, on a real API server; there is no kubelet, so what its pods would run runs
here, under their flags and rights. The tutorial's rule, to its first heal. And all of it away.
"""

import base64
import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from support import waiting
from support.api_everything import everything
from support.chart_plane import ChartPrograms, ready, secret
from support.components import CONTROL_PLANE, HELM, control_plane_folder, require
from support.control_plane import ControlPlane
from support.documented import BLOCK, of
from support.fresh_clone import FreshClone
from support.helm import NAMESPACE, Helm
from support.idle_rights import IDLE
from support.used_rights import given, idle, used
from support.web import WORKLOAD

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

PATIENCE = 120.0
NODES = ("w1", "w2", "w3")
RULE = "disk-wearing-out"
UNHURRIED = ("--node-monitor-grace-period=2h",)
"""A late kwok makes no node silent: pods that were once not ready never are again under it."""
OUR_PATH = "/apis/kubenode.io/v1alpha1"
JOBS = f"{OUR_PATH}/remedyoperationjobs"
CENTRAL = ("StatefulSet/kubenode-system/kubenode-defender",
           "Deployment/kubenode-system/kubenode-remedy",
           "Deployment/kubenode-system/kubenode-machine")  # fmt: skip
HOST = """
apiVersion: kubenode.io/v1alpha1
kind: MachineComponent
metadata: {name: containerd-2.1.4}
spec:
  component: containerd
  version: 2.1.4
  source: {type: apt, apt: {packages: [{name: containerd.io, version: 2.1.4-1}]}}
---
apiVersion: kubenode.io/v1alpha1
kind: MachineComponentSet
metadata: {name: containerd}
spec: {selector: {matchLabels: {pool: online}}, component: containerd-2.1.4}
---
apiVersion: kubenode.io/v1alpha1
kind: Machine
metadata: {name: sh-113, labels: {pool: online}}
spec: {addresses: [10.2.7.113]}
"""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> FreshClone:
    return FreshClone(tmp_path_factory.mktemp("newcomer"))


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    require(CONTROL_PLANE)
    with ControlPlane(kwok=True, audit=True, controller_args=UNHURRIED) as cp:
        yield cp


def test_the_demo_runs_from_a_fresh_clone(clone: FreshClone) -> None:
    flags = "ARGS=--for 15s --nodes 60 --seed 7 --json"
    done = clone.run("make", "demo", flags, limit=200)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert (found["falseActions"], found["limitViolations"]) == (0, 0)


def test_install_first_rule_first_heal_and_nothing_is_left(
    clone: FreshClone, plane: ControlPlane, tmp_path: Path
) -> None:
    require(HELM)
    cluster_with_work(plane)
    pristine, nodes = everything(plane), marked(plane)
    newcomer = Newcomer(clone, plane, tmp_path)
    helm = Helm(tmp_path, plane.kubeconfig)
    helm.done(*readme_install(clone.folder))
    with newcomer.programs(helm):
        newcomer.writes_the_first_rule()
        newcomer.lets_it_watch()
        newcomer.lets_it_act()
        newcomer.declares_a_host()
        newcomer.is_at_work_again()
        first = newcomer.types("kubenode uninstall --yes")
        assert "noderemediers: 1 are deleted" in first
        assert "helm uninstall kubenode -n kubenode-system --wait" in first
        assert plane.get(JOBS)["items"] == []
    every_right_is_used(plane, helm)
    helm.done("uninstall", "kubenode", "-n", NAMESPACE, "--wait")
    assert "nothing of KubeNode is left in this cluster" in newcomer.types(
        "kubenode uninstall --yes"
    )
    waiting.until(
        lambda: everything(plane) == pristine,
        "nothing is left",
        PATIENCE,
        lambda: everything(plane) ^ pristine,
    )
    assert leases(plane) == []
    assert marked(plane) == nodes


def readme_install(clone: Path) -> list[str | Path]:
    """Words of the `helm install` of README.md, with the chart of the clone."""
    (words,) = (
        command.words
        for command in of("helm")
        if (command.page, command.words[1]) == ("README.md", "install")
    )
    assert NAMESPACE in words
    return [clone / word if word.startswith("charts/") else word for word in words[1:]]


def every_right_is_used(plane: ControlPlane, helm: Helm) -> None:
    """By the programs on this day, or by something that a test elsewhere has them do."""
    done, refused = used(plane.audit_log)
    assert refused == [], "used, and the chart does not give it"
    unused = idle(given(helm.rendered({})), done)
    left = [f"{one.account}: {one}" for one in unused if not any(r.excuses(one) for r in IDLE)]
    assert not left, f"rights without a known use (tests/support/idle_rights.py): {left}"


def cluster_with_work(plane: ControlPlane) -> None:
    nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in NODES]
    listed = {"apiVersion": "v1", "kind": "List", "items": nodes}
    plane.kubectl("create", "-f", "-", stdin=json.dumps(listed))
    plane.kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=120s", timeout=130)
    plane.kubectl("apply", "-f", "-", stdin=WORKLOAD)
    plane.kubectl("wait", "--for=condition=Available", "deployment/web", "--timeout=120s",
                  timeout=130)  # fmt: skip


def marked(plane: ControlPlane) -> list[tuple[Any, ...]]:
    """What a Node has that somebody may have left on it, but for the fault of the tutorial."""
    return [
        (
            node["metadata"]["name"],
            sorted(key for key in node["metadata"].get("annotations", {}) if "kubenode" in key),
            sorted(node["metadata"].get("labels", {})),
            node["spec"],
            sorted({c["type"] for c in node["status"]["conditions"]} - {"NvmeSpareLow"}),
        )
        for node in plane.get("/api/v1/nodes")["items"]
    ]


def leases(plane: ControlPlane) -> list[str]:
    found = plane.get("/apis/coordination.k8s.io/v1/leases")["items"]
    names = [f"{one['metadata']['namespace']}/{one['metadata']['name']}" for one in found]
    return [name for name in names if "kubenode" in name]


class Newcomer:
    """Types what docs/tutorial-first-rule.md shows, in the clone."""

    def __init__(self, clone: FreshClone, plane: ControlPlane, folder: Path) -> None:
        self._clone, self._plane, self._folder = clone, plane, folder
        page = (clone.folder / "docs/tutorial-first-rule.md").read_text()
        self._blocks = BLOCK.findall(page)
        self._logs: list[Path] = []

    def shown(self, phrase: str, nth: int = 0) -> str:
        """The block of the page that has these words."""
        found: list[str] = [block for block in self._blocks if phrase in block]
        return found[nth]

    def types(self, text: str) -> str:
        """In a shell; what it prints. Raises AssertionError if it fails."""
        kubectl = f"PATH=$PATH:{control_plane_folder()}\n"
        variables = {"KUBECONFIG": str(self._plane.kubeconfig)}
        shell = ("bash", "-euc", kubectl + text)
        done = self._clone.run(*shell, limit=PATIENCE, variables=variables)
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}\n{self.why()}"
        return done.stdout

    def programs(self, helm: Helm) -> ExitStack:
        """The chart's pods, until the end of the block."""
        with ExitStack() as stack:
            objects = helm.rendered({})
            chart = ChartPrograms(self._plane, objects, self._folder, self._clone.kubenode)
            defender, *others = CENTRAL
            urls = [stack.enter_context(chart.running(defender))]
            self.until(lambda: "ca.crt" in secret(self._plane, "kubenode-defender"), "an authority")
            authority = secret(self._plane, "kubenode-defender")["ca.crt"]
            chart.authority.write_bytes(base64.b64decode(authority))
            urls += [stack.enter_context(chart.running(pod)) for pod in others]
            for url in urls:
                self.until(partial(ready, url), f"{url} is ready")
            return stack.pop_all()

    def until(self, look: Callable[[], Any], what: str) -> Any:
        return waiting.until(look, what, PATIENCE, self.why)

    def has_jobs(self, phases: list[str]) -> None:
        """Waits until its jobs are in these phases."""
        self.until(lambda: self.phases() == phases, f"jobs are {phases}")

    def why(self) -> str:
        """For a failure's message."""
        logs = sorted(self._folder.glob("*.log"))
        told = [f"--- {log.name}\n{log.read_text()[-2000:]}" for log in logs]
        return "\n".join([json.dumps([job.get("status") for job in self.jobs()]), *told])

    def jobs(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self._plane.get(JOBS)["items"]
        return items

    # ---- the tutorial

    def writes_the_first_rule(self) -> None:
        """Steps 1 to 5."""
        rules = self._clone.folder / "my-rules"
        (rules / "tests").mkdir(parents=True)
        rule = self.shown("kind: NodeRemedier", -1)
        (rules / f"{RULE}.yaml").write_text(rule)
        (rules / f"tests/{RULE}.test.yaml").write_text(self.shown(f"rules: [../{RULE}.yaml]"))
        (self._clone.folder / "worn.jsonl").write_text(self.shown('"lifecycle"'))
        self.types(self.shown("kubenode rules lint my-rules"))
        self.types(self.shown("kubenode rules test my-rules"))
        assert RULE in self.types(self.shown("kubenode rules replay --from worn.jsonl"))
        (rules / f"{RULE}.yaml").write_text(quicker(rule))

    def lets_it_watch(self) -> None:
        """Step 6: it says what it would do, and does nothing."""
        path = f"{OUR_PATH}/noderemediers/{RULE}"
        self.types("kubectl apply -f my-rules")
        self.until(
            lambda: self._plane.get(path).get("status", {}).get("phase") == "Active",
            "the rule is loaded",
        )
        patched = self.shown("NODE=n00009").replace("n00009", NODES[0])
        assert RULE in self.types(patched)
        self.until(self.has_dry_run, "the record tells what the rule would have done")
        assert not any(spec.get("unschedulable") for _, _, _, spec, _ in marked(self._plane))

    def has_dry_run(self) -> bool:
        path = f"{OUR_PATH}/noderecords"
        runs = [run for r in self._plane.get(path)["items"] for run in r["spec"].get("dryRuns", ())]
        return any(run["remedier"] == RULE for run in runs)

    def lets_it_act(self) -> None:
        """Step 7: the node is emptied, the disk replaced, the node is back."""
        (enforce,) = re.findall(r"^kubectl patch noderemedier .*", self.shown('"Enforce"}}'), re.M)
        self.types(enforce)
        self.has_jobs(["Verifying"])
        node = self._plane.get(f"/api/v1/nodes/{NODES[0]}")
        assert node["spec"]["unschedulable"] is True
        pods = self._plane.get("/api/v1/namespaces/default/pods")["items"]
        assert NODES[0] not in {pod["spec"].get("nodeName") for pod in pods}
        self.types(f"NODE={NODES[0]}\n" + self.shown('"reason":"SpareFine"'))
        self.has_jobs(["Succeeded"])

    def declares_a_host(self) -> None:
        """With the component of docs/overview.md; no agent has joined yet."""
        self._plane.kubectl("apply", "-f", "-", stdin=HOST)
        sets, host = f"{OUR_PATH}/machinecomponentsets/containerd", f"{OUR_PATH}/machines/sh-113"
        self.until(lambda: self._plane.get(sets)["metadata"].get("finalizers"), "the set is seen")
        self.until(
            lambda: self._plane.get(host).get("status", {}).get("phase"), "the Machine is seen"
        )

    def is_at_work_again(self) -> None:
        """A second disk wears out; its job has cordoned the node."""
        self.types(self.shown("NODE=n00009").replace("n00009", NODES[1]))
        self.has_jobs(["Succeeded", "Verifying"])
        assert self._plane.get(f"/api/v1/nodes/{NODES[1]}")["spec"]["unschedulable"] is True

    def phases(self) -> list[str]:
        return sorted(job.get("status", {}).get("phase", "") for job in self.jobs())


def quicker(rule: str) -> str:
    """The same rule with the times of a test."""
    found = YAML(typ="safe").load(rule)
    spec = found["spec"]
    spec["when"]["condition"]["for"] = "1s"
    spec |= {"groupWait": "0s", "startupGrace": "0s"}
    for rung in spec["ladder"]:
        rung["verify"] |= {"for": "2s", "settle": "0s"}
    return json.dumps(found)
