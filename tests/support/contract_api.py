"""A plain HTTP client for the contract suite: shows what a server answers, interprets nothing."""

import asyncio
import json
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

Obj = dict[str, Any]
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
GROUP = "contract.kubenode.test"
DEADLINE = 20.0
"""Seconds within which what is eventual must have happened."""


@dataclass(frozen=True, slots=True)
class Reply:
    code: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def reason(self) -> str:
        return str(self.body.get("reason", "")) if isinstance(self.body, dict) else ""

    @property
    def meta(self) -> Obj:
        found = self.body.get("metadata") if isinstance(self.body, dict) else None
        return found or {}

    @property
    def spec(self) -> Obj:
        return self.body.get("spec") or {} if isinstance(self.body, dict) else {}

    @property
    def status(self) -> Obj:
        found = self.body.get("status") if isinstance(self.body, dict) else None
        return found if isinstance(found, dict) else {}

    @property
    def rv(self) -> int:
        return int(self.meta["resourceVersion"])

    @property
    def causes(self) -> list[str]:
        details = self.body.get("details") or {} if isinstance(self.body, dict) else {}
        return [cause.get("reason", "") for cause in details.get("causes") or ()]

    @property
    def names(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.body["items"]]


@dataclass
class ContractApi:
    """One server under test; `ns` is a namespace of this test alone. `compact` makes the server
    forget the past of its objects."""

    url: str
    session: aiohttp.ClientSession
    tls: ssl.SSLContext | bool
    kubeconfig: Path
    ns: str
    embedded: bool
    compact: Callable[[], None] = lambda: None

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Reply:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        headers = {"Content-Type": content_type, "Accept": accept} if data else {"Accept": accept}
        async with self.session.request(
            method, self.url + path, data=data, headers=headers, ssl=self.tls
        ) as response:
            text = await response.text()
            try:
                decoded = json.loads(text)
            except ValueError:
                decoded = text
            return Reply(response.status, decoded, dict(response.headers))

    async def get(self, path: str, accept: str = "application/json") -> Reply:
        return await self.call("GET", path, accept=accept)

    async def post(self, path: str, body: Any) -> Reply:
        return await self.call("POST", path, body)

    async def put(self, path: str, body: Any) -> Reply:
        return await self.call("PUT", path, body)

    async def patch(self, path: str, body: Any, content_type: str = MERGE) -> Reply:
        return await self.call("PATCH", path, body, content_type)

    async def delete(self, path: str, body: Any = None) -> Reply:
        return await self.call("DELETE", path, body)

    async def made(self, path: str, body: Obj) -> Reply:
        """Create what a test needs to begin with."""
        reply = await self.post(path, body)
        assert reply.code == 201, reply
        return reply

    async def watch(self, path: str, want: int, seconds: float = 5.0) -> list[Obj]:
        """The first `want` events, or those of `seconds`; a refusal is [{"type": "HTTP", ...}]."""
        events: list[Obj] = []
        with suppress(TimeoutError):
            async with (
                asyncio.timeout(seconds),
                self.session.get(self.url + path, ssl=self.tls) as response,
            ):
                if response.status != 200:
                    return [{"type": "HTTP", "code": response.status}]
                async for line in response.content:
                    events.append(json.loads(line))
                    if len(events) >= want:
                        break
        return events

    async def until(self, path: str, done: Callable[[Reply], bool]) -> Reply:
        """GET until `done`: discovery, CRDs and garbage collection are eventual."""
        async with asyncio.timeout(DEADLINE):
            while True:
                reply = await self.get(path)
                if done(reply):
                    return reply
                await asyncio.sleep(0.1)

    # ---- paths and bodies

    def path(self, plural: str, group: str = "", version: str = "v1") -> str:
        root = f"/apis/{group}/{version}" if group else f"/api/{version}"
        return f"{root}/namespaces/{self.ns}/{plural}"

    @property
    def pods(self) -> str:
        return self.path("pods")

    @property
    def configmaps(self) -> str:
        return self.path("configmaps")

    @property
    def foos(self) -> str:
        return self.path("foos", GROUP)

    @property
    def leases(self) -> str:
        return self.path("leases", "coordination.k8s.io")

    @property
    def pdbs(self) -> str:
        return self.path("poddisruptionbudgets", "policy")

    async def running(self, name: str, labels: Mapping[str, str], ready: bool = True) -> None:
        """A pod that runs on a node without a kubelet."""
        await self.made(self.pods, a_pod(name=name, labels=dict(labels)))
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        status = {"phase": "Running", "conditions": [condition]}
        reply = await self.patch(f"{self.pods}/{name}/status", {"status": status})
        assert reply.code == 200, reply

    async def evict(self, name: str, **more: Any) -> Reply:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **more}
        return await self.post(f"{self.pods}/{name}/eviction", body)


def a_pod(node: str = "nowhere", **metadata: Any) -> Obj:
    spec: Obj = {
        "containers": [{"name": "c1", "image": "x:1"}, {"name": "c2", "image": "y:1"}],
    }
    if node:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def a_configmap(name: str, data: Mapping[str, str] | None = None, **metadata: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        **({"data": dict(data)} if data else {}),
    }


def a_lease(name: str, holder: str, **metadata: Any) -> Obj:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, **metadata},
        "spec": {"holderIdentity": holder},
    }


def a_foo(name: str, /, metadata: Obj | None = None, **spec: Any) -> Obj:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Foo",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"a": 1, **spec},
    }


def a_budget(name: str, selector: Obj | None, **spec: Any) -> Obj:
    chosen = {} if selector is None else {"selector": selector}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {**({"minAvailable": 1} if not spec else {}), **chosen, **spec},
    }


def a_crd(plural: str, kind: str, spec: Obj, group: str = GROUP, **version: Any) -> Obj:
    """A namespaced CRD with a free status."""
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": spec, "status": free}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                    **version,
                }
            ],
        },
    }


def _foo_spec() -> Obj:
    text = {"type": "string"}
    pair = {"type": "object", "properties": {"type": text, "status": text}, "required": ["type"]}
    return {
        "type": "object",
        "required": ["a"],
        "properties": {
            "a": {"type": "integer", "minimum": 0, "maximum": 10},
            "b": {"type": "string", "default": "dflt"},
            "node": text,
            "mode": {"type": "string", "enum": ["On", "Off"]},
            "word": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
            "share": {"x-kubernetes-int-or-string": True},
            "labels": {"type": "object", "additionalProperties": text},
            "maybe": {"type": "string", "nullable": True},
            "deep": {
                "type": "object",
                "properties": {"x": {"type": "integer", "default": 7}, "y": text},
            },
            # No list-type: atomic, whatever its name.
            "conditions": {"type": "array", "items": pair, "maxItems": 3},
            "byType": {
                "type": "array",
                "items": pair,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }


FOO_CRD = a_crd(
    "foos",
    "Foo",
    _foo_spec(),
    selectableFields=[{"jsonPath": ".spec.node"}],
    additionalPrinterColumns=[
        {"name": "A", "type": "integer", "jsonPath": ".spec.a"},
        {
            "name": "Ready",
            "type": "string",
            "jsonPath": '.status.conditions[?(@.type=="Ready")].status',
        },
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ],
)
