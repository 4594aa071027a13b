"""The Remedy operator against a real API server: nodes, pods, a Defender that says yes, an agent.

The rule engine is real (`rules.diagnose`); which engines it runs is said by `diagnoser`.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from prometheus_client import CollectorRegistry
from support.control_plane import ControlPlane
from support.disruption_guard import live_permit
from support.embedded import EmbeddedPlane
from support.running import running, until

from devtools.crds import FOLDER
from kubenode.api.crd import definition
from kubenode.api.v1alpha1 import KINDS, Ask, Reason, RemedyOperationJob, Verdict
from kubenode.api.v1alpha1.permit import Holder
from kubenode.providers.registry import Providers
from kubenode.runtime.clock import Clock, SystemClock
from kubenode.runtime.disruption.permits import LivePermit
from kubenode.runtime.fence import AlwaysLeader, Fence
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import STRATEGIC_PATCH, Kube
from kubenode.runtime.kube.errors import AlreadyExists
from kubenode.runtime.kube.official import connect
from kubenode.runtime.process import serve
from remedy.operator import RemedyOperator, RemedySettings
from rules.diagnose import Diagnoser

JOBS = paths.custom(RemedyOperationJob.resource.plural)
RULES = paths.custom("noderemediers")
POLL_SECONDS = 0.1
"""Between two lists of all jobs. A list costs some 5 ms of processor time on both sides."""


def now() -> datetime:
    return SystemClock().now()


def stamp(at: datetime | None = None) -> str:
    return (at or now()).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class YesPermits:
    """A Kube Defender without limits. `held` is what a correct job leaves empty."""

    held: dict[str, Ask] = field(default_factory=dict)
    asked: list[Ask] = field(default_factory=list)
    no: Reason | None = None

    async def ask(self, ask: Ask) -> Verdict:
        self.asked.append(ask)
        if self.no is not None:
            at = now() + timedelta(seconds=1)
            return Verdict(allowed=False, reason=self.no, message="no", look_again_at=at)
        name = f"permit-{ask.holder.name}"
        self.held[name] = ask
        return self._yes(name)

    def _yes(self, name: str) -> Verdict:
        return Verdict(
            allowed=True,
            reason=Reason.GRANTED,
            permit=name,
            class_=self.held[name].class_,
            granted_at=now(),
            expires_at=now() + timedelta(minutes=15),
        )

    async def check(self, permit: str, seconds_needed: float) -> Verdict:
        if permit in self.held:
            return self._yes(permit)
        return Verdict(allowed=False, reason=Reason.UNKNOWN, message="no such permit")

    async def renew(self, permit: str, seconds_needed: float = 0) -> Verdict:
        return await self.check(permit, 0)

    async def release(self, permit: str) -> None:
        self.held.pop(permit, None)

    async def read(self, name: str) -> LivePermit | None:
        """As the API server would: for the guard of destructive acts."""
        ask = self.held.get(name)
        if ask is None:
            return None
        return live_permit(name, ask.node, ask.holder.uid, str(ask.class_))

    async def wakes(self) -> AsyncIterator[Holder]:
        """Nobody is woken: nobody waits."""
        await asyncio.Event().wait()
        for ask in self.asked:
            yield ask.holder


def install_crds(cp: ControlPlane) -> None:
    cp.kubectl("apply", "-f", FOLDER)
    names = [f"crd/{definition(kind)['metadata']['name']}" for kind in KINDS]
    established(cp, names)


def established(cp: ControlPlane, crds: list[str]) -> None:
    """Wait until they are served. kubectl fails at once on one without any condition yet."""
    for last in (*[False] * 30, True):
        waited = ("wait", "--for=condition=Established", "--timeout=60s", *crds)
        if cp.kubectl(*waited, check=last).returncode == 0:
            return


@dataclass
class Cluster:
    """One client, and what a test does as kubelet, detector, agent and person."""

    kube: Kube
    permits: YesPermits = field(default_factory=YesPermits)

    async def node(self, name: str, **metadata: Any) -> dict[str, Any]:
        """Ready, old enough to have no grace, with a boot ID."""
        body = {"metadata": {"name": name, **metadata}}
        made = await self.kube.create(paths.nodes(), body)
        info = {key: "x" for key in INFO} | {"bootID": f"boot-{name}"}
        status = {"nodeInfo": info, "conditions": [condition("Ready", "True", "KubeletReady")]}
        patch = {"status": status}
        await self.kube.patch(paths.node(name, "status"), patch, STRATEGIC_PATCH)
        return made

    async def say(self, node: str, type_: str, status: str, reason: str = "Test") -> None:
        """As a detector: one condition of the Node."""
        patch = {"status": {"conditions": [condition(type_, status, reason)]}}
        await self.kube.patch(paths.node(node, "status"), patch, STRATEGIC_PATCH)

    async def rule(self, name: str, **spec: Any) -> None:
        body = {
            "apiVersion": "kubenode.io/v1alpha1",
            "kind": "NodeRemedier",
            "metadata": {"name": name},
            "spec": spec,
        }
        await self.kube.create(RULES, body)

    async def pod(self, node: str, namespace: str, name: str, app: str) -> None:
        """Of a controller that only has the name of one; pods without any stay where they are."""
        owner = {"name": f"owner-of-{app}"}
        try:
            made = await self.kube.create(config_maps(namespace), {"metadata": owner})
        except AlreadyExists:
            made = await self.kube.get(f"{config_maps(namespace)}/{owner['name']}")
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner["name"],
            "uid": made["metadata"]["uid"],
            "controller": True,
        }
        body = {
            "metadata": {"name": name, "labels": {"app": app}, "ownerReferences": [reference]},
            "spec": {
                "nodeName": node,
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "c", "image": "none"}],
                "tolerations": [{"operator": "Exists"}],
            },
        }
        await self.kube.create(paths.pods(namespace), body)
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": stamp()}
        patch = {"status": {"phase": "Running", "conditions": [ready]}}
        await self.kube.patch(paths.pod(namespace, name, "status"), patch, STRATEGIC_PATCH)

    async def jobs(self) -> list[RemedyOperationJob]:
        found = await self.kube.get(JOBS)
        return [RemedyOperationJob.from_server(json.dumps(o).encode()) for o in found["items"]]

    async def wait(
        self, what: Callable[[RemedyOperationJob], bool], seconds: float = 90
    ) -> RemedyOperationJob:
        """The first job for which `what` holds."""
        deadline = SystemClock().monotonic() + seconds
        while True:
            jobs = await self.jobs()
            if found := next((job for job in jobs if what(job)), None):
                return found
            if SystemClock().monotonic() > deadline:
                seen = [(j.metadata.name, j.status.to_dict()) for j in jobs]
                raise AssertionError(f"not within {seconds} s; jobs: {seen}")
            await SystemClock().sleep(POLL_SECONDS)

    async def answer(self, job: RemedyOperationJob, state: str = "Done") -> str:
        """As the agent: answer the request under way; its id."""
        record = next(s for s in job.status.steps if s.by == "Agent" and s.state == "Running")
        answer = {"state": state, "finishedAt": now().isoformat(), "code": 0, "output": "ok"}
        patch = {"status": {"agent": {"requests": {record.request_id: answer}}}}
        await self.kube.patch(f"{JOBS}/{job.metadata.name}/status", patch)
        return record.request_id

    async def clean(self) -> None:
        for job in await self.jobs():
            path = f"{JOBS}/{job.metadata.name}"
            await self.kube.patch(path, {"metadata": {"finalizers": None}})
        await self.kube.call("DELETE", JOBS)
        await self.kube.call("DELETE", RULES)
        await self.kube.call("DELETE", paths.nodes())

    def operator(
        self,
        diagnoser: Diagnoser,
        fence: Fence | None = None,
        settings: RemedySettings | None = None,
        providers: Providers | None = None,
        clock: Clock | None = None,
    ) -> RemedyOperator:
        return RemedyOperator(
            self.kube,
            self.permits,
            diagnoser,
            fence or AlwaysLeader(),
            clock or SystemClock(),
            CollectorRegistry(),
            settings,
            providers=providers,
            permit_reader=self.permits,
        )


def config_maps(namespace: str) -> str:
    return paths.resource("/api/v1", "configmaps", namespace=namespace)


INFO = (
    "architecture", "bootID", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion",
    "kubeletVersion", "machineID", "operatingSystem", "osImage", "systemUUID",
)  # fmt: skip


def condition(type_: str, status: str, reason: str) -> dict[str, str]:
    at = stamp()
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": f"{type_} is {status}",
        "lastHeartbeatTime": at,
        "lastTransitionTime": at,
    }


async def kubelets(cluster: Cluster, nodes: Sequence[str]) -> None:
    """They live, for ever; else the nodes are unknown after 40 s."""
    while True:
        await asyncio.sleep(5)
        for name in nodes:
            await cluster.say(name, "Ready", "True", "KubeletReady")


@asynccontextmanager
async def connected(cp: ControlPlane | EmbeddedPlane) -> AsyncIterator[Cluster]:
    kube = Kube(connect(str(cp.kubeconfig)), rate=2000, burst=4000)
    cluster = Cluster(kube)
    try:
        yield cluster
        await cluster.clean()
    finally:
        await kube.close()


@asynccontextmanager
async def operating(operator: RemedyOperator) -> AsyncIterator[RemedyOperator]:
    """Runs beside the test, until the end of the block; rules are loaded when it begins."""
    try:
        async with running(serve(operator.parts, operator.ground)):
            await until(operator.ready, 60, "the operator is ready")
            yield operator
    finally:
        operator.close()
