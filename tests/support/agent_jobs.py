"""Jobs with agent steps on a real API server, and the agent's rights installed there."""

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from support.control_plane import ControlPlane

from devtools.crds import FOLDER
from kubenode.runtime.clock import SystemClock

CHART = Path(__file__).parents[2] / "charts" / "kubenode" / "agent"
JOBS = "/apis/kubenode.io/v1alpha1/remedyoperationjobs"
PROBES = "/apis/kubenode.io/v1alpha1/hostprobes"
MACHINES = "/apis/kubenode.io/v1alpha1/machines"
NODES = "/api/v1/nodes"
EVENTS = "/api/v1/namespaces/default/events"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kubenode-agents/leases"
GROUP = "kubenode:agents"
POLICY_SECONDS = 30.0


def user(agent: str) -> str:
    return f"kubenode:agent:{agent}"


def stamp(after: timedelta = timedelta(0)) -> str:
    return (SystemClock().now() + after).isoformat(timespec="milliseconds")


def an_agent_job(name: str, node: str, unit: str, agent: str | None = None) -> dict[str, Any]:
    """One rung with one RestartUnit step."""
    step = {"agent": {"action": "RestartUnit", "unit": unit, "timeout": "1m"}}
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "RemedyOperationJob",
        "metadata": {"name": name},
        "spec": {
            "nodeName": node,
            "agent": agent or node,
            "trigger": {"firstTrue": stamp()},
            "ladder": [{"name": "restart", "steps": [step]}],
        },
    }


def a_probe(
    name: str, agent: str, about: str, valid: timedelta = timedelta(seconds=30)
) -> dict[str, Any]:
    """A question as the operator asks it."""
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "HostProbe",
        "metadata": {"name": name},
        "spec": {"agent": agent, "nodeName": agent, "name": about, "expiresAt": stamp(valid)},
    }


def an_event(node: str, **changes: Any) -> dict[str, Any]:
    """An Event about a node, as its agent writes it."""
    return {
        "metadata": {"name": f"{node}.0123", "namespace": "default"},
        "involvedObject": {"kind": "Node", "apiVersion": "v1", "name": node},
        "type": "Warning",
        "reason": "TaskHung",
        "message": "m",
        "source": {"component": "kernel-monitor", "host": node},
        "reportingComponent": "kernel-monitor",
        "reportingInstance": node,
        "firstTimestamp": "2026-01-01T12:00:00Z",
        "lastTimestamp": "2026-01-01T12:00:00Z",
        "count": 1,
        **changes,
    }


def a_machine(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "Machine",
        "metadata": {"name": name},
        "spec": {"origin": "Import", "addresses": ["10.2.7.113"]},
    }


def asked(
    boot_id: str, *, request_id: str = "r0s0a1", valid: timedelta = timedelta(minutes=1)
) -> dict[str, Any]:
    """A status in which the operator asks the agent for the only step."""
    return {
        "phase": "Running",
        "message": "asked",
        "steps": [
            {
                "rung": 0,
                "index": 0,
                "name": "agent",
                "by": "Agent",
                "requestID": request_id,
                "state": "Running",
                "attempts": 1,
                "askedAt": stamp(),
                "startedAt": stamp(),
                "expiresAt": stamp(valid),
                "bootID": boot_id,
            }
        ],
    }


class Operator:
    """What the remedy operator does with a job, by hand, as admin."""

    def __init__(self, cp: ControlPlane) -> None:
        self._cp = cp

    def make(self, job: dict[str, Any], status: dict[str, Any] | None = None) -> str:
        self._cp.kubectl("create", "-f", "-", stdin=json.dumps(job))
        name: str = job["metadata"]["name"]
        if status is not None:
            self.write(name, status)
        return name

    def write(self, name: str, status: dict[str, Any]) -> None:
        patch = json.dumps({"status": status})
        self._cp.kubectl("patch", "knj", name, "--subresource=status", "--type=merge", "-p", patch)

    def read(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self._cp.get(f"{JOBS}/{name}")
        return found

    def answer(self, name: str, request_id: str = "r0s0a1") -> dict[str, Any] | None:
        agent = self.read(name).get("status", {}).get("agent", {})
        found: dict[str, Any] | None = agent.get("requests", {}).get(request_id)
        return found

    def ask(self, probe: dict[str, Any]) -> str:
        """A HostProbe; its name."""
        return self.make(probe)

    def wait_status(self, probe: str, seconds: float = 40) -> dict[str, Any]:
        """The status of a HostProbe once it is answered."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            status: dict[str, Any] = self._cp.get(f"{PROBES}/{probe}").get("status", {})
            if "answeredAt" in status:
                return status
            time.sleep(0.05)
        raise AssertionError(f"no answer to {probe} within {seconds} s")

    def wait_answer(
        self, name: str, seconds: float = 60, request_id: str = "r0s0a1"
    ) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if (found := self.answer(name, request_id)) is not None:
                return found
            time.sleep(0.05)
        raise AssertionError(f"no answer to {request_id} within {seconds} s: {self.read(name)}")


def install(cp: ControlPlane) -> None:
    """CRDs and the agent's rights, as a user installs them; returns when they are in force."""
    cp.kubectl("apply", "-f", FOLDER)
    crds = [f"crd/{path.stem.removeprefix('kubenode.io_')}.kubenode.io" for path in _crds()]
    cp.kubectl("wait", "--for=condition=Established", "--timeout=60s", *crds)
    cp.kubectl("apply", "-f", CHART / "rbac.yaml", "-f", CHART / "admission.yaml")
    _wait_enforced(cp)


def _crds() -> list[Path]:
    return sorted(Path(FOLDER).glob("kubenode.io_*.yaml"))


def _wait_enforced(cp: ControlPlane) -> None:
    """A new policy takes a second or two to be enforced; until then it lets everything pass."""
    # Tried by an administrator in the group: RBAC lets it pass, only the policy does not.
    both = Caller(cp, user("probe"), [GROUP, "system:masters"])
    lease = {"metadata": {"name": "other"}, "spec": {"holderIdentity": "other"}}
    end = time.monotonic() + POLICY_SECONDS
    tried = (
        (JOBS, an_agent_job("probe", "probe", "a.service")),
        (PROBES, a_probe("probe", "probe", "host")),
        (LEASES, lease),
        (NODES, {"metadata": {"name": "other"}}),
        (EVENTS, an_event("other")),
        (MACHINES, a_machine("other")),
    )
    for path, body in tried:
        while both.ask("POST", f"{path}?dryRun=All", body)[0] < 400:
            if time.monotonic() > end:
                raise AssertionError("the agents' admission policies are not enforced")
            time.sleep(0.2)
    kubelet = Caller(cp, "system:node:other", ["system:nodes", "system:masters"])
    marked = {"metadata": {"name": "other", "annotations": {"kubenode.io/machine": "x"}}}
    for path, body in ((NODES, marked), (EVENTS, an_event("another"))):
        while kubelet.ask("POST", f"{path}?dryRun=All", body)[0] < 400:
            if time.monotonic() > end:
                raise AssertionError("the kubelets' admission policies are not enforced")
            time.sleep(0.2)


class Caller:
    """A user at the API server, one raw request at a time: kubectl reads before it writes."""

    def __init__(self, cp: ControlPlane, name: str, groups: Sequence[str]) -> None:
        self._server = cp.server
        self._headers: dict[str, str] = {}
        identity = cp.issue_client_cert(name, groups)
        self._tls = ssl.create_default_context(cafile=str(cp.ca_file))
        self._tls.load_cert_chain(identity.cert_file, identity.key_file)

    def ask(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> tuple[int, str]:
        """HTTP status and the text of the answer."""
        if method == "PATCH" and kind == "application/json":
            kind = "application/merge-patch+json"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._server + path, data, {"Content-Type": kind, **self._headers}
        )
        request.method = method
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def patch_status(self, job: str, status: Any, **more: Any) -> tuple[int, str]:
        return self.ask("PATCH", f"{JOBS}/{job}/status", {"status": status, **more})


class Bearer(Caller):
    """Who has this token."""

    def __init__(self, cp: ControlPlane, token: str) -> None:
        self._server = cp.server
        self._headers = {"Authorization": f"Bearer {token}"}
        self._tls = ssl.create_default_context(cafile=str(cp.ca_file))


class Anonymous(Bearer):
    """A caller that shows no credential."""

    def __init__(self, cp: ControlPlane) -> None:
        super().__init__(cp, "")
        self._headers = {}


def both_identities(cp: ControlPlane, node: str) -> dict[str, Caller]:
    """Of the agent of a node: the certificate of a host, and a Pod of the DaemonSet."""
    return {
        "certificate": Caller(cp, user(node), [GROUP]),
        "token": Bearer(cp, node_token(cp, node)),
    }


def node_token(cp: ControlPlane, node: str) -> str:
    """A token as kubelet mounts it into the DaemonSet's Pod on `node`, which is made."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"agent-{node}", "namespace": "kubenode-agents"},
        "spec": {
            "nodeName": node,
            "serviceAccountName": "kubenode-agent",
            "containers": [{"name": "agent", "image": "kubenode"}],
            "tolerations": [{"operator": "Exists"}],
        },
    }
    cp.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    bound = ["--bound-object-kind=Pod", f"--bound-object-name=agent-{node}"]
    made = cp.kubectl("create", "token", "-n", "kubenode-agents", "kubenode-agent", *bound)
    return made.stdout.strip()
