"""A small real cluster that heals itself: three hosts as Nodes with the agent on each, and Kube
Defender and the Remedy operator as processes with the rights that the chart gives them.

Tests share it and take turns: each brings its own workload, rule and fault class, and `scene` takes
all of it away again.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from support.agent_jobs import install
from support.agent_service import binds, install_agent
from support.command import kubenode
from support.control_plane import ControlPlane
from support.daemons import free_port
from support.hosts import Hosts
from support.kubelet_hosts import QUICK, KubeletHosts
from support.programs import Program
from support.waiting import until

CHARTS = Path(__file__).parents[2] / "charts" / "kubenode"
ACCOUNT = "system:serviceaccount:kubenode-system:kubenode-{}"
ZONES = {"n1": "a", "n2": "b", "n3": "c"}
API = "/apis/kubenode.io/v1alpha1"
OURS = {"kubenode.io/cordoned-by", "kubenode.io/fenced-by"}
POLICY = {
    "apiVersion": "kubenode.io/v1alpha1",
    "kind": "DefenderPolicy",
    "metadata": {"name": "default"},
    "spec": {
        # As the default, but that every node here may have its faults within minutes.
        "nodes": {"all": True},
        "limits": [{"scope": "Cluster", "maxConcurrent": 1}],
        "perNode": {"maxActs": 1000, "within": "24h"},
        "smallPool": {"nodes": 5},
        "breaker": {"trip": {"minNodes": 1000}},
    },
}


class NodeCluster:
    """`nodes` are the hosts by name; `jobs` what the operator made of their faults."""

    def __init__(self, hosts: Hosts, cp: ControlPlane, nodes: KubeletHosts, folder: Path) -> None:
        self.cp, self.nodes = cp, nodes
        port = str(free_port())
        self.defender = self._program("defender", folder, "--listen-port", port)
        url = f"http://127.0.0.1:{port}"
        providers = folder / "providers.yaml"
        local = {"type": "local", "command": hosts.power_command, "timeout": "40s"}
        providers.write_text(json.dumps([local]))  # JSON is YAML
        flags = ["--defender-url", url, "--providers-file", str(providers)]
        self.remedy = self._program("remedy", folder, *flags)

    def _program(self, name: str, folder: Path, *flags: str) -> Program:
        kubeconfig = str(self.cp.kubeconfig_for(ACCOUNT.format(name)))
        common = ["--kubeconfig", kubeconfig, "--namespace", "kubenode-system"]
        common += ["--health-port", "0"]
        return Program(name, ["run", name, *common, *flags], folder)

    def jobs(self, rule: str) -> list[dict[str, Any]]:
        items = self.cp.get(f"{API}/remedyoperationjobs")["items"]
        return [job for job in items if job["spec"].get("remedier", {}).get("name") == rule]

    def closed(self, rule: str, before: int = 0) -> dict[str, Any] | None:
        """The latest job of a rule that made `before` jobs already, once it is closed or waits for
        a person.
        """
        over = ("Succeeded", "Failed", "Cancelled", "NeedsHuman")
        jobs = self.jobs(rule)
        if len(jobs) <= before:
            return None
        latest = max(jobs, key=lambda job: str(job["metadata"]["creationTimestamp"]))
        return latest if latest.get("status", {}).get("phase") in over else None

    def node(self, name: str) -> dict[str, Any]:
        node: dict[str, Any] = self.cp.get(f"/api/v1/nodes/{name}")
        return node

    def in_service(self) -> frozenset[str]:
        """Nodes that are Ready under their host's boot, schedulable, and bear no mark of ours."""
        return frozenset(
            name
            for name, node in self.nodes.ready().items()
            if not node["spec"].get("unschedulable")
            and not OURS & node["metadata"].get("annotations", {}).keys()
            and not any("out-of-service" in t["key"] for t in node["spec"].get("taints", []))
        )

    def why(self) -> str:
        """Return the message of a failure: jobs, nodes, pods, what explains each node, logs."""
        items = self.cp.get(f"{API}/remedyoperationjobs")["items"]
        jobs = [json.dumps(job.get("status", {}), indent=1)[-6000:] for job in items]
        told = self.cp.kubectl("get", "nodes,pods,pdb,knrm,knp", "-o", "wide", check=False)
        reasons = [self._explained(name) for name in self.nodes]
        programs = {"remedy": self.remedy, "defender": self.defender}
        logs = [f"--- {name}\n{program.log[-3000:]}" for name, program in programs.items()]
        return "\n".join([*jobs, told.stdout, told.stderr, *reasons, *logs])

    def _explained(self, name: str) -> str:
        """Return what `kubenode explain node` prints, standard error included."""
        flag = f"--kubeconfig={self.cp.kubeconfig}"
        answer = kubenode("explain", "node", name, flag)
        return f"--- explain node {name}\n{answer.stdout}{answer.stderr}"

    def until(self, true: Callable[[], Any], seconds: float, what: str) -> Any:
        """What `true` gives at last. AssertionError with `why` after `seconds`."""
        return until(true, what, seconds, self.why)

    def apply(self, *objects: dict[str, Any]) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.cp.kubectl("apply", "-f", "-", stdin=json.dumps(listed))

    def delete(self, *objects: dict[str, Any]) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        flags = ["--ignore-not-found", "--wait=false"]
        self.cp.kubectl("delete", "-f", "-", *flags, stdin=json.dumps(listed))

    # ---- scenes

    @contextmanager
    def scene(self, *things: dict[str, Any]) -> Iterator[None]:
        """All nodes in service, the workload running, the rules loaded; afterwards all is gone."""
        rules = [thing for thing in things if thing["kind"] == "NodeRemedier"]
        workload = [thing for thing in things if thing not in rules]
        run = [thing for thing in workload if thing["kind"] in ("Deployment", "StatefulSet")]
        every = frozenset(self.nodes)
        self.until(lambda: self.in_service() == every, 120, "all nodes are in service")
        try:
            self.apply(*workload)
            self.until(lambda: all(map(self.runs, run)), 120, "the workload runs")
            self.apply(*rules)
            self.until(lambda: all(map(self._active, rules)), 60, "the rules are loaded")
            yield
        finally:
            self._recover(rules)
            self.delete(*workload)
            self.until(lambda: not self.pods(), 90, "the workload is gone")

    def _recover(self, rules: list[dict[str, Any]]) -> None:
        """Whatever became of it: all hosts run, and no job holds anything."""
        for name in self.nodes:
            host = self.nodes[name]
            host.board("delay 0")
            host.thaw()
            host.board("on")
        self.delete(*rules)
        self.cp.kubectl("delete", "knj", "--all", "--wait=false")
        jobs = f"{API}/remedyoperationjobs"
        self.until(lambda: not self.cp.get(jobs)["items"], 60, "the jobs are gone")
        self.cp.kubectl("delete", "noderecords", "--all")  # a person's decision ends with its test

    def runs(self, thing: dict[str, Any]) -> bool:
        """Whether a Deployment or StatefulSet has as many ready pods as it wants."""
        kind, name = f"{thing['kind'].lower()}s", thing["metadata"]["name"]
        status = self.cp.get(f"/apis/apps/v1/namespaces/default/{kind}/{name}")["status"]
        return bool(status.get("readyReplicas", 0) == thing["spec"]["replicas"])

    def pods(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.cp.get("/api/v1/namespaces/default/pods")["items"]
        return items

    def pod(self, name: str) -> dict[str, Any]:
        pod: dict[str, Any] = self.cp.get(f"/api/v1/namespaces/default/pods/{name}")
        return pod

    def node_of(self, pod: str) -> str:
        return str(self.pod(pod)["spec"]["nodeName"])

    def _active(self, rule: dict[str, Any]) -> bool:
        found = self.cp.get(f"{API}/noderemediers/{rule['metadata']['name']}")
        return bool(found.get("status", {}).get("phase") == "Active")


@contextmanager
def node_cluster(folder: Path, zones: dict[str, str] = ZONES) -> Iterator[NodeCluster]:
    with ExitStack() as stack:
        hosts = stack.enter_context(Hosts())
        plane = ControlPlane(address=hosts.gateway, controller_args=QUICK, audit=True)
        cp = stack.enter_context(plane)
        install(cp)
        nodes = stack.enter_context(KubeletHosts(hosts, cp))
        for name, zone in zones.items():
            install_agent(nodes.boot(name, zone=zone, bind=binds()), cp, name)
        cp.kubectl("create", "namespace", "kubenode-system")
        for part in ("remedy", "defender"):
            cp.kubectl("apply", "-f", CHARTS / part / "rbac.yaml")
        cluster = NodeCluster(hosts, cp, nodes, folder)
        cluster.apply(POLICY)
        nodes.wait_ready()
        cluster.defender.start()
        stack.callback(cluster.defender.stop)
        cluster.remedy.start()
        stack.callback(cluster.remedy.stop)
        yield cluster
