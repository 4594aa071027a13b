"""Stores odd objects of one kind on an API server, as many as are wanted, and removes them."""

import asyncio
import base64
from collections import Counter
from collections.abc import Iterable
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from support.api_objects import GOOD
from support.odd_objects import OddObjects, encoded, enums, words

from kubenode.api.v1alpha1 import KINDS
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import MERGE_PATCH, Kube
from kubenode.runtime.kube.errors import KubeError
from kubenode.runtime.kube.wire import decode_head, decode_page

OWN = tuple(kind.__name__ for kind in KINDS)
ALL = (*OWN, "Node", "Event", "Lease", "CertificateSigningRequest")
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
LEASES = "kubenode-agents"
MOST = 150
"""Objects of one kind at a time: the API server is not to be filled."""
PREFIX = "odd-"
GIVEN = {good["kind"]: good for good in GOOD.values()}
OF_AGENTS = {"RemedyOperationJob", "HostProbe"}
NAMED_AS_AGENTS = {"AgentAssignment", "Machine"}
ON_NODES = {"HostEvent": "nodeName"}
Object = dict[str, Any]


class OddBurst:
    """agent  name of an agent, and of its Node, which half of all that concerns agents is about"""

    def __init__(self, kube: Kube, seed: int, agent: str) -> None:
        self.odd = OddObjects(seed, GIVEN)
        self.stored: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.version = 0
        """resourceVersion of the last object that was stored."""
        self._kube, self._agent, self._pem = kube, agent, a_request()
        self._numbers: Counter[str] = Counter()
        self._found: dict[str, set[Any]] = {kind: set() for kind in OWN}

    async def store(self, kind: str, count: int, seconds: float) -> None:
        """Objects of `kind`, at most `count` and for at most `seconds`, but at least one."""
        loop = asyncio.get_running_loop()
        until, last = loop.time() + seconds, self._numbers[kind] + count
        self.version = 0
        while (loop.time() < until and self._numbers[kind] < last) or not self.version:
            number = self._numbers[kind]
            self._numbers[kind] += 1
            assert number < last + MOST, f"no object of {kind} is stored"
            if number >= MOST:
                await self._remove(kind, self._name(kind, number - MOST))
            await self._store(kind, number)

    async def clean(self, kind: str) -> None:
        """Remove what was stored, by force."""
        page = await self._kube.get(self.path(kind), decode=decode_page)
        for name in [decode_head(item).metadata.name for item in page.items or ()]:
            if name.startswith(PREFIX):
                await self._remove(kind, name)

    def enums(self, kind: str) -> tuple[int, int]:
        """How many values of enums the stored objects had, and how many there are."""
        every = {(way, word) for way, choice in enums(self.odd.schemas[kind]) for word in choice}
        return len(self._found[kind] & every), len(every)

    def path(self, kind: str) -> str:
        match kind:
            case "Node":
                return paths.nodes()
            case "Event":
                return paths.events("default")
            case "Lease":
                return paths.leases(LEASES)
            case "CertificateSigningRequest":
                return REQUESTS
            case _:
                (resource,) = (one.resource for one in KINDS if one.__name__ == kind)
                namespace = "default" if resource.namespaced else None
                return paths.custom(resource.plural, namespace=namespace)

    # -- one object ------------------------------------------------------------------------------

    def _name(self, kind: str, number: int) -> str:
        return f"{PREFIX}{kind.lower()}-{number}"

    async def _store(self, kind: str, number: int) -> None:
        name = self._name(kind, number)
        body = self._made(kind, name, number)
        status = body.pop("status", None)
        path = self.path(kind)
        await self._write(
            kind, {"spec": body.get("spec")}, self._kube.create(path, encoded(body), decode=bytes)
        )
        if kind in NAMED_AS_AGENTS:
            odd = encoded({"spec": body["spec"]})
            own = f"{path}/{self._agent}"
            await self._write(kind, {}, self._kube.patch(own, odd, MERGE_PATCH, bytes))
        if status is not None:
            patch = encoded({"status": status})
            written = self._kube.patch(f"{path}/{name}/status", patch, MERGE_PATCH, bytes)
            await self._write(kind, {"status": status}, written)

    async def _write(self, kind: str, part: Object, written: Any) -> None:
        try:
            raw = await written
        except KubeError:
            self.refused[kind] += 1
            return
        self.stored[kind] += 1
        self.version = int(decode_head(raw).metadata.resource_version)
        if kind in self._found:
            self._found[kind].update(words(part))

    def _made(self, kind: str, name: str, number: int) -> Object:
        if kind in OWN:
            return self._custom(kind, name, number)
        self.odd.begin(kind, number)
        match kind:
            case "Node":
                return self.odd.node(name)
            case "Event":
                return self.odd.event(name, f"{PREFIX}node-0" if number % 2 else self._agent)
            case "Lease":
                return self.odd.lease(name, LEASES)
            case _:
                return self.odd.request(name, self._pem)

    def _custom(self, kind: str, name: str, number: int) -> Object:
        made = self.odd.of(kind, name, number)
        if kind == "NodeRemedier" and made["spec"].get("mode") == "Enforce":
            # A rule that acts would act on the healthy node too, and rightly.
            made["spec"]["nodes"] = {"selector": {"matchLabels": {"odd": "yes"}}}
        if kind == "DefenderPolicy":
            # One of all nodes would bind the healthy one, and rightly.
            made["spec"]["nodes"] = {"selector": {"matchLabels": {"odd": "yes"}}}
        if kind in OF_AGENTS and number % 4 < 2:
            made["spec"]["agent"] = self._agent
        if kind in ON_NODES and number % 4 < 2:
            made["spec"][ON_NODES[kind]] = self._agent
        return made

    async def _remove(self, kind: str, name: str) -> None:
        path = f"{self.path(kind)}/{name}"
        free: Object = {"metadata": {"finalizers": None}}
        steps: Iterable[Any] = (
            self._kube.patch(path, encoded(free), MERGE_PATCH, bytes),
            self._kube.delete(path, decode=bytes),
        )
        for step in steps:
            try:
                await step
            except KubeError:
                continue


def a_request() -> str:
    """A certificate signing request, as its API has it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "odd")])
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()
