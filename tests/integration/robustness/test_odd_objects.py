"""Odd objects of every kind on an API server: no process ends, and other nodes go on being healed.

KUBENODE_FUZZ_SECONDS  of each kind: 1 is a run of some minutes, 600 the long one; without it the
                       test is skipped
KUBENODE_FUZZ_SEED     of the dice
"""

import asyncio
import base64
import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from support.api_objects import GOOD
from support.command import COMMAND, environment, kubenode
from support.components import CONTROL_PLANE, require
from support.control_plane import ControlPlane
from support.daemons import free_port
from support.odd_objects import OddObjects, encoded
from support.remedy_cluster import Cluster, connected

from kubenode.api.v1alpha1 import KINDS
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import MERGE_PATCH
from kubenode.runtime.kube.errors import KubeError
from kubenode.runtime.kube.wire import decode_head, decode_page

SECONDS = float(os.environ.get("KUBENODE_FUZZ_SECONDS", "1"))
SEED = int(os.environ.get("KUBENODE_FUZZ_SEED", "1"))
ALL = [*(kind.__name__ for kind in KINDS), "Node", "Event", "Lease", "CertificateSigningRequest"]
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        "KUBENODE_FUZZ_SECONDS" not in os.environ, reason="KUBENODE_FUZZ_SECONDS is not set"
    ),
    pytest.mark.timeout(300 + 3 * SECONDS * len(ALL)),
    pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning"),
]
BEHIND = 2.0
"""Seconds within which every cache has what the API server has."""
MOST = 150
"""Objects of one kind at a time: the API server is not to be filled."""
HEALTHY, SICK = "well-0", "Sick"
HEALED = 60.0
OWN = {"default", "sick"}
"""Names of the policy and of the rule."""
POLICY: dict[str, Any] = {
    "apiVersion": "kubenode.io/v1alpha1",
    "kind": "DefenderPolicy",
    "metadata": {"name": "default"},
    "spec": {
        "nodes": {"all": True},
        "limits": [],
        "perNode": {"maxActs": 100, "within": "1h"},
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
    "attempts": {"max": 100, "within": "1h"},
    "ladder": [{"name": "mark", "steps": [{"cordon": {}}], "verify": VERIFY}],
}


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    require(CONTROL_PLANE)
    with ControlPlane(controllers=False, scheduler=False) as real:
        yield real


class Operators:
    """`kubenode run all` as a process."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._plane, self._log = plane, folder / "operators.log"
        self._port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Operators":
        words = ("run", "all", "--kubeconfig", str(self._plane.kubeconfig))
        ports = ("--health-port", str(self._port), "--guard-port", str(free_port()))
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [COMMAND, *words, *ports, "--log-level", "warning"],
                env=environment(PYTHONFAULTHANDLER="1"),
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

    def lives(self) -> None:
        assert self.process is not None
        code = self.process.poll()
        assert code is None, f"ended with {code}:\n{self._log.read_text()[-6000:]}"

    async def ready(self) -> None:
        for _ in range(600):
            self.lives()
            try:
                await asyncio.to_thread(self._read, "readyz")
                return
            except OSError:
                await asyncio.sleep(0.2)
        raise AssertionError(f"never ready:\n{self._log.read_text()[-3000:]}")

    def _read(self, path: str) -> str:
        url = f"http://127.0.0.1:{self._port}/{path}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return str(answer.read().decode())

    async def _stacks(self) -> str:
        """End it, and say where each of its threads was."""
        assert self.process is not None
        self.process.send_signal(signal.SIGABRT)
        await asyncio.to_thread(self.process.wait, 30)
        return self._log.read_text()[-8000:]

    async def known(self, resource: str) -> float:
        """Objects of the informer of this name, those that cannot be read too; -1 for no informer.

        One that was readable before is in the cache and counted as unreadable: then more.
        """
        try:
            page = await asyncio.to_thread(self._read, "metrics")
        except OSError as error:
            raise AssertionError(f"it hangs ({error}): {await self._stacks()}") from error
        told = dict(
            line.rsplit(" ", 1)
            for line in page.splitlines()
            if line.startswith("kubenode_informer_") and f'resource="{resource}"' in line
        )
        parts = [
            float(told.get(f'kubenode_informer_{what}{{resource="{resource}"}}', -1))
            for what in ("objects", "undecodable_objects")
        ]
        return sum(parts) if min(parts) >= 0 else -1.0


def a_request() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "odd")])
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


def unread(raw: bytes) -> None:
    """The answer says nothing that is asked here."""


class Fuzz:
    def __init__(self, cluster: Cluster) -> None:
        given = {good["kind"]: good for good in GOOD.values()}
        self.odd, self.cluster = OddObjects(SEED, given), cluster
        self._pem = a_request()
        self._resources = {kind.__name__: kind.resource for kind in KINDS}
        self.stored = self.refused = 0

    def path(self, kind: str) -> str:
        match kind:
            case "Node":
                return paths.nodes()
            case "Event":
                return paths.events("default")
            case "Lease":
                return paths.leases("kubenode-agents")
            case "CertificateSigningRequest":
                return "/apis/certificates.k8s.io/v1/certificatesigningrequests"
            case _:
                resource = self._resources[kind]
                return paths.custom(
                    resource.plural, namespace="default" if resource.namespaced else None
                )

    def made(self, kind: str, name: str) -> dict[str, Any]:
        match kind:
            case "Node":
                return self.odd.node(name)
            case "Event":
                return self.odd.event(name, "odd-node-0")
            case "Lease":
                return self.odd.lease(name, "kubenode-agents")
            case "CertificateSigningRequest":
                return self.odd.request(name, self._pem)
            case _:
                return self._custom(kind, name)

    def _custom(self, kind: str, name: str) -> dict[str, Any]:
        made = self.odd.of(kind, name)
        if kind == "NodeRemedier":
            # A rule that acts would act on the healthy node too, and rightly.
            made["spec"]["mode"] = "DryRun"
        if kind == "DefenderPolicy":
            # One of all nodes would bind the healthy one, and rightly.
            made["spec"]["nodes"] = {"selector": {"matchLabels": {"odd": "yes"}}}
        return made

    async def burst(self, kind: str) -> None:
        """Store objects for SECONDS, at least some."""
        self.stored = self.refused = 0
        loop = asyncio.get_running_loop()
        until, number = loop.time() + SECONDS, 0
        while loop.time() < until or (not self.stored and number < MOST):
            name = f"odd-{kind.lower()}-{number % MOST}"
            await self._store(kind, name)
            number += 1

    async def _store(self, kind: str, name: str) -> None:
        body = self.made(kind, name)
        status = body.pop("status", None)
        kube, path = self.cluster.kube, self.path(kind)
        try:
            await kube.create(path, encoded(body), decode=unread)
            self.stored += 1
        except KubeError:
            self.refused += 1
        if status is not None:
            patch = {"status": status}
            try:
                await kube.patch(f"{path}/{name}/status", encoded(patch), MERGE_PATCH, unread)
                self.stored += 1
            except KubeError:
                self.refused += 1

    async def count(self, kind: str) -> int:
        return len(await self._names(kind))

    async def _names(self, kind: str) -> list[str]:
        page = await self.cluster.kube.get(self.path(kind), decode=decode_page)
        return [decode_head(item).metadata.name for item in page.items or ()]

    async def clean(self, kind: str) -> None:
        for name in await self._names(kind):
            if not name.startswith("odd-"):
                continue
            try:
                await self.cluster.kube.delete(f"{self.path(kind)}/{name}", decode=unread)
            except KubeError:
                continue


RESOURCES = {"Node": "nodes", "CertificateSigningRequest": "certificatesigningrequests"}
"""Informers that follow a whole kind; others follow a part of it."""


async def healed(cluster: Cluster, known: set[str]) -> None:
    """The healthy node falls ill, gets a job that did not exist before, and is well again."""
    await cluster.say(HEALTHY, SICK, "True")
    deadline = asyncio.get_running_loop().time() + HEALED
    while True:
        mine = [job for job in await jobs(cluster) if job["metadata"]["name"] not in known]
        phases = [job.get("status", {}).get("phase") for job in mine]
        if "Verifying" in phases:
            await cluster.say(HEALTHY, SICK, "False")
        if "Succeeded" in phases:
            known |= {job["metadata"]["name"] for job in mine}
            return
        assert asyncio.get_running_loop().time() < deadline, f"not healed: {phases}"
        await asyncio.sleep(0.05)


async def jobs(cluster: Cluster) -> list[dict[str, Any]]:
    page = await cluster.kube.get(paths.custom("remedyoperationjobs"))
    return [
        job
        for job in page["items"]
        if job["spec"]["nodeName"] == HEALTHY and not job["metadata"]["name"].startswith("odd-")
    ]


async def test_odd_objects_of_every_kind_stop_nothing(plane: ControlPlane, tmp_path: Path) -> None:
    for last in (False, False, True):  # a loaded machine takes longer than one request may
        installed = kubenode("install", "--kubeconfig", plane.kubeconfig, limit=180)
        assert not last or installed.returncode == 0, installed.stderr
        if installed.returncode == 0:
            break
    async with connected(plane) as cluster:
        try:
            await cluster.kube.create(paths.custom("defenderpolicies"), POLICY)
        except KubeError:
            spec = {"spec": POLICY["spec"]}
            await cluster.kube.patch(paths.custom("defenderpolicies") + "/default", spec)
        await cluster.node(HEALTHY, labels={"well": "yes"})
        await cluster.rule("sick", **RULE)
        fuzz, known = Fuzz(cluster), set[str]()
        with Operators(plane, tmp_path) as operators:
            await operators.ready()
            await healed(cluster, known)
            for kind in ALL:
                await fuzz.burst(kind)
                assert fuzz.stored, f"no object of {kind} was stored: {fuzz.refused} refused"
                await behind(operators, fuzz, kind)
                operators.lives()
                await healed(cluster, known)
                operators.lives()
                await fuzz.clean(kind)
            await operators.ready()


async def behind(operators: Operators, fuzz: Fuzz, kind: str) -> None:
    """Every object is in the cache of its kind, readable or not, BEHIND seconds after the last."""
    resource = RESOURCES.get(kind) or fuzz.path(kind).rsplit("/", 1)[-1]
    deadline = asyncio.get_running_loop().time() + BEHIND
    while True:
        wanted, found = await fuzz.count(kind), await operators.known(resource)
        if found < 0 or found >= wanted:
            return
        late = asyncio.get_running_loop().time() > deadline
        assert not late, f"{resource}: {found:g} of {wanted} objects after {BEHIND:g} s"
        await asyncio.sleep(0.05)
