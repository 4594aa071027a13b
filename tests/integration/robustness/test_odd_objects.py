"""Odd objects of every kind on an API server: no process ends, and other nodes go on being healed.

In CI a fixed number of each kind, from a fixed seed. Longer:

KUBENODE_FUZZ_SECONDS  of each kind, however many they are; 600 is the long run
KUBENODE_FUZZ_SEED     of the dice
KUBENODE_FUZZ_KINDS    by comma, in place of all
"""

import asyncio
import logging
import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.agent_jobs import CHART, GROUP, PROBES, a_probe, stamp, user
from support.cache_lag import BareWatch, family_waited, lag, versions
from support.command import COMMAND, environment, kubenode
from support.components import CONTROL_PLANE, require
from support.control_plane import ControlPlane
from support.daemons import free_port
from support.odd_burst import ALL, GIVEN, OWN, OddBurst
from support.remedy_cluster import Cluster, condition, connected
from support.running import running, until

from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import STRATEGIC_PATCH
from kubenode.runtime.kube.errors import KubeError

LONG = os.environ.get("KUBENODE_FUZZ_SECONDS", "")
SEED = int(os.environ.get("KUBENODE_FUZZ_SEED", "1"))
FUZZED = tuple(filter(None, os.environ.get("KUBENODE_FUZZ_KINDS", "").split(","))) or ALL
SECONDS = float(LONG or 5)
COUNT = 10**9 if LONG else 60
pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(600 + 3 * SECONDS * len(FUZZED)),
    pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning"),
]
log = logging.getLogger(__name__)
BEHIND = 2.0
"""Seconds within which every cache has what the API server has (support.cache_lag)."""
HEALTHY, SICK, AGENT = "well-0", "Sick", "agent-0"
STATE = ("kubenode_remedy", "kubenode_queue", "kubenode_controller", "kubenode_rules")
"""Metrics that say why a node is not healed."""
REPORTS_EVERY = 2.0
HEALED, ANSWERED = 60.0, timedelta(seconds=90)
"""The first in seconds beside those in which the operator had no processor."""
INFORMERS = {"Lease": "leases of agents", "Event": "node events"}
"""Names of informers that are not called as their resource."""
UNFOLLOWED = {"KubeNodeRemediationTemplate", "MemberCluster", "Release", "ReleasePipeline"}
"""What no cache of an operator holds as a whole; Captain is none of the programs here."""
POLICY: dict[str, Any] = {
    "apiVersion": "kubenode.io/v1alpha1",
    "kind": "DefenderPolicy",
    "metadata": {"name": "default"},
    "spec": {
        "nodes": {"all": True},
        "limits": [],
        "perNode": {"maxActs": 100, "within": "2m"},
        "acknowledgeUnlimited": True,
    },
}
VERIFY = {"for": "1s", "settle": "0s", "timeout": "30m"}
RULE: dict[str, Any] = {
    "mode": "Enforce",
    "severity": "Critical",
    "faultClass": "sick",
    "nodes": {"selector": {"matchLabels": {"well": "yes"}}},
    "when": {"condition": {"type": SICK, "status": "True"}},
    "groupWait": "0s",
    "startupGrace": "0s",
    "cooldown": "0s",
    "attempts": {"max": 100, "within": "2m"},
    "ladder": [{"name": "mark", "steps": [{"cordon": {}}], "verify": VERIFY}],
}


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    require(CONTROL_PLANE)
    with ControlPlane(controllers=False, scheduler=False) as real:
        yield real


class Process:
    """A process of ours that must not end. port: where it tells its health, 0 for nowhere."""

    def __init__(self, words: list[str | Path], log: Path, port: int = 0, **more: str) -> None:
        self._words, self._log, self.port = words, log, port
        self._more = more
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Process":
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                self._words,
                env=environment(PYTHONFAULTHANDLER="1", **self._more),
                stdout=log,
                stderr=log,
            )
        return self

    def __exit__(self, *error: object) -> None:
        assert self.process is not None
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def lives(self) -> None:
        assert self.process is not None
        code = self.process.poll()
        assert code is None, f"ended with {code}:\n{self.told()}"

    def told(self) -> str:
        """The end of its log."""
        return self._log.read_text(errors="replace")[-6000:]

    async def ready(self) -> None:
        for _ in range(900):
            self.lives()
            try:
                await asyncio.to_thread(_open, f"http://127.0.0.1:{self.port}/readyz")
                return
            except OSError:
                await asyncio.sleep(0.2)
        raise AssertionError(f"never ready:\n{self.told()}")

    async def stacks(self) -> str:
        """End it, and say where each of its threads was."""
        assert self.process is not None
        self.process.send_signal(signal.SIGABRT)
        await asyncio.to_thread(self.process.wait, 30)
        return self.told()


def _open(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


def operators(plane: ControlPlane, folder: Path) -> Process:
    port = free_port()
    words = ("run", "all", "--kubeconfig", str(plane.kubeconfig))
    ports = ("--health-port", str(port), "--guard-port", str(free_port()))
    log = folder / "operators.log"
    return Process([COMMAND, *words, *ports, "--log-level", "warning"], log, port)


def agent(plane: ControlPlane, folder: Path) -> Process:
    identity = plane.issue_client_cert(user(AGENT), [GROUP])
    state = folder / AGENT
    state.mkdir()
    words: list[str | Path] = [
        plane.server,
        plane.ca_file,
        identity.cert_file,
        identity.key_file,
        AGENT,
        state,
    ]
    module: list[str | Path] = ["-m", "support.simulated_agent"]
    python, tests = Path(COMMAND).parent / "python", Path(__file__).parents[2]
    root = f"{tests}:{tests.parent}"
    return Process([python, *module, *words], folder / "agent.log", PYTHONPATH=root)


class Patient:
    """The healthy node: falls ill and is healed, again and again."""

    def __init__(self, plane: ControlPlane, cluster: Cluster, ours: Process) -> None:
        self.times = 0
        self._ours = ours
        self._plane, self._cluster, self._known = plane, cluster, set[str]()
        self._began = stamp()
        self._status, self._since = "False", self._began

    async def reports(self) -> None:
        """Its detector and the kubelets, for ever. Times of change stay as they are: a reporter
        that moves them without a change is taken for one that has started anew.
        """
        while True:
            await self._report()
            for node in (HEALTHY, AGENT):
                await self._write(node, "Ready", "True", self._began)
            await asyncio.sleep(REPORTS_EVERY)

    async def _turn(self, status: str) -> None:
        if self._status != status:
            self._status, self._since = status, stamp()
            await self._report()

    async def _report(self) -> None:
        await self._write(HEALTHY, SICK, self._status, self._since)

    async def _write(self, node: str, type_: str, status: str, since: str) -> None:
        told = {**condition(type_, status, "Test"), "lastTransitionTime": since}
        patch = {"status": {"conditions": [told]}}
        await self._cluster.kube.patch(paths.node(node, "status"), patch, STRATEGIC_PATCH)

    async def healed(self) -> None:
        """It falls ill, gets a job that did not exist before, and is well again."""
        await self._turn("True")
        began, waited = asyncio.get_running_loop().time(), family_waited(self._ours.pid)
        while True:
            mine = await self._new_jobs()
            phases = [job.get("status", {}).get("phase") for job in mine]
            if "Verifying" in phases:
                await self._turn("False")
            if "Succeeded" in phases:
                self._known |= {job["metadata"]["name"] for job in mine}
                self.times += 1
                return
            took = asyncio.get_running_loop().time() - began
            if took > HEALED + family_waited(self._ours.pid) - waited:
                raise AssertionError(f"not healed: {phases}\n{await self._explained()}")
            await asyncio.sleep(0.1)

    async def _explained(self) -> str:
        words = ("explain", "node", HEALTHY, "--kubeconfig", str(self._plane.kubeconfig))
        told = await asyncio.to_thread(kubenode, *words, limit=60)
        page = await asyncio.to_thread(_open, f"http://127.0.0.1:{self._ours.port}/metrics")
        state = [
            line
            for line in page.splitlines()
            if line.startswith(STATE) and not line.endswith(" 0.0") and "_bucket" not in line
        ]
        return "\n".join([told.stdout + told.stderr, *state, self._ours.told()])

    async def _new_jobs(self) -> list[dict[str, Any]]:
        page = await self._cluster.kube.get(paths.custom("remedyoperationjobs"))
        return [
            job
            for job in page["items"]
            if job["spec"]["nodeName"] == HEALTHY
            and not job["metadata"]["name"].startswith("odd-")
            and job["metadata"]["name"] not in self._known
        ]


async def answers(cluster: Cluster, host: Process, name: str) -> None:
    """The agent is asked something sensible, and answers."""
    await cluster.kube.create(PROBES, a_probe(name, AGENT, "disk", ANSWERED))
    deadline = asyncio.get_running_loop().time() + ANSWERED.total_seconds()
    while True:
        host.lives()
        found = await cluster.kube.get(f"{PROBES}/{name}")
        if "answeredAt" in found.get("status", {}):
            return
        late = asyncio.get_running_loop().time() > deadline
        assert not late, f"the agent does not answer: {found}\n{host.told()}"
        await asyncio.sleep(0.1)


async def prepared(plane: ControlPlane, cluster: Cluster) -> None:
    for last in (False, False, True):  # a loaded machine takes longer than one request may
        installed = kubenode("install", "--kubeconfig", plane.kubeconfig, limit=180)
        assert not last or installed.returncode == 0, installed.stderr
        if installed.returncode == 0:
            break
    plane.kubectl("apply", "-f", CHART / "rbac.yaml")
    try:
        await cluster.kube.create(paths.custom("defenderpolicies"), POLICY)
    except KubeError:
        spec = {"spec": POLICY["spec"]}
        await cluster.kube.patch(paths.custom("defenderpolicies") + "/default", spec)
    await cluster.node(HEALTHY, labels={"well": "yes"})
    await cluster.node(AGENT)
    machine = {**GIVEN["Machine"], "metadata": {"name": AGENT}}
    await cluster.kube.create(paths.custom("machines"), machine)
    await cluster.rule("sick", **RULE)


async def test_odd_objects_of_every_kind_stop_nothing(plane: ControlPlane, tmp_path: Path) -> None:
    async with connected(plane) as cluster, AsyncExitStack() as stack:
        await prepared(plane, cluster)
        ours = stack.enter_context(operators(plane, tmp_path))
        host = stack.enter_context(agent(plane, tmp_path))
        await ours.ready()
        burst, patient = OddBurst(cluster.kube, SEED, AGENT), Patient(plane, cluster, ours)
        _ = await stack.enter_async_context(running(patient.reports()))
        await patient.healed()
        for kind in FUZZED:
            await fuzzed(cluster, kind, burst, patient, ours)
            await answers(cluster, host, f"after-{kind.lower()}")
            for process in (ours, host):
                process.lives()
            await burst.clean(kind)
        await ours.ready()


async def fuzzed(
    cluster: Cluster, kind: str, burst: OddBurst, patient: Patient, ours: Process
) -> None:
    """One kind: while odd objects come the healthy node is healed, and then no cache is behind."""
    before, bare = patient.times, BareWatch(cluster.kube, burst.path(kind))
    async with running(bare.run()):
        await until(lambda: bare.version > 0)
        async with asyncio.TaskGroup() as tasks:
            storing = tasks.create_task(burst.store(kind, COUNT, SECONDS))
            while not storing.done() or patient.times == before:
                await patient.healed()
                ours.lives()
        resource = INFORMERS.get(kind) or burst.path(kind).rsplit("/", 1)[-1]
        late = await behind(ours, bare, resource, burst.version)
    found, every = burst.enums(kind) if kind in OWN else (0, 0)
    log.warning(
        "%s: %d stored, %d refused, enums %d of %d, lag %s, healed %d times",
        *(kind, burst.stored[kind], burst.refused[kind], found, every, late),
        patient.times - before,
    )
    assert late is None or late < BEHIND, f"the cache of {kind} is {late:.1f} s behind"
    assert late is not None or kind in UNFOLLOWED, f"{kind} is in no cache"


async def behind(ours: Process, bare: BareWatch, resource: str, version: int) -> float | None:
    """None: no informer follows the resource."""
    try:
        if resource not in await versions(ours.port):
            return None
        return await lag(bare, ours.port, ours.pid, resource, version)
    except OSError as error:
        raise AssertionError(f"it hangs ({error}): {await ours.stacks()}") from error
