"""Admission of rules without a network: a fleet of FactSets, rules that are there, an author."""

import json
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry
from support.clock import T0, FakeClock

from kubenode.api.v1alpha1 import NodeRemedier
from remedy.webhook.examine import Examiner
from remedy.webhook.metrics import RuleWebhookMetrics
from remedy.webhook.validator import RuleValidator
from rules.facts import ConditionFact, FactSet
from rules.nodekeys import NodeKeys

SICK: dict[str, Any] = {"condition": {"type": "Sick", "for": "1m"}}
RESTART: dict[str, Any] = {
    "name": "restart",
    "steps": [{"agent": {"action": "RestartUnit", "unit": "a.service"}}],
}
ISOLATE: dict[str, Any] = {"name": "isolate", "steps": [{"cordon": {}}, {"migrate": {}}]}


def a_spec(**more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "mode": "Enforce",
        "nodes": {"all": True},
        "when": SICK,
        "ladder": [RESTART],
        **more,
    }
    return {key: value for key, value in given.items() if value is not None}


def an_infer(fact: str, when: Mapping[str, Any] = SICK, **more: Any) -> dict[str, Any]:
    return a_spec(when=when, ladder=None, infer={"fact": fact}, **more)


def an_object(
    name: str, spec: Mapping[str, Any], generation: int = 1, accept: str | None = None
) -> dict[str, Any]:
    """accept  what its author says of the blast radius"""
    meta = {"name": name, "uid": f"uid-{name}", "generation": generation}
    named = {} if accept is None else {"kubenode.io/accept-blast-radius": accept}
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "NodeRemedier",
        "metadata": {**meta, "annotations": named},
        "spec": dict(spec),
    }


def a_review(
    new: Mapping[str, Any] | None,
    old: Mapping[str, Any] | None = None,
    *,
    dry_run: bool = False,
    resource: str = "noderemediers",
) -> bytes:
    operation = "DELETE" if new is None else "CREATE" if old is None else "UPDATE"
    request = {
        "uid": "review-1",
        "operation": operation,
        "name": ((new or old) or {})["metadata"]["name"],
        "resource": {"group": "kubenode.io", "version": "v1alpha1", "resource": resource},
        "userInfo": {"username": "alice"},
        "dryRun": dry_run,
        "object": new,
        "oldObject": old,
    }
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(body).encode()


@dataclass
class FleetInHand:
    """`sick` of `size` nodes have condition Sick; labels say the zone."""

    size: int = 1000
    sick: int = 0
    current: bool = True
    asked: int = 0

    def nodes(self) -> Collection[str]:
        return [f"n{n}" for n in range(self.size)]

    def facts(self, node: str) -> FactSet | None:
        self.asked += 1
        n = int(node[1:])
        status = "True" if n < self.sick else "False"
        condition = ConditionFact("Sick", status, "Test", "", T0.replace(year=2025), T0)
        zone = {"topology.kubernetes.io/zone": f"z{n % 4}"}
        return FactSet(node=node, uid=node, labels=zone, conditions={"Sick": condition})

    def fresh(self) -> bool:
        return self.current

    def conditions(self) -> Collection[str]:
        return {"Sick", "Ready"}


@dataclass
class Admission:
    """The webhook's validator over a fleet in hand. Use as a context manager."""

    fleet: FleetInHand = field(default_factory=FleetInHand)
    rules: dict[str, NodeRemedier] = field(default_factory=dict)
    most: int | str = "10%"
    node_keys: NodeKeys = field(default_factory=NodeKeys)

    def __enter__(self) -> "Admission":
        self.threads = ThreadPoolExecutor(2)
        self.clock = FakeClock()
        self.registry = CollectorRegistry()
        listed = lambda: list(self.rules.values())  # noqa: E731
        self.validator = RuleValidator(
            Examiner(listed, self.fleet, self.clock, self.threads, self.node_keys),
            listed,
            self.threads,
            RuleWebhookMetrics(self.registry),
            self.most,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.threads.shutdown()

    def there(self, name: str, spec: Mapping[str, Any]) -> None:
        self.rules[name] = NodeRemedier.model_validate(an_object(name, spec))

    async def ask(self, raw: bytes, seconds: float = 5.0) -> dict[str, Any]:
        """The response; its `text` is the message of a refusal."""
        body = await self.validator.answer(raw, seconds)
        assert (body["kind"], body["response"]["uid"]) == ("AdmissionReview", "review-1")
        response: dict[str, Any] = body["response"]
        return {**response, "text": response.get("status", {}).get("message", "")}

    async def create(self, spec: Mapping[str, Any], accept: str | None = None) -> dict[str, Any]:
        return await self.ask(a_review(an_object("new", spec, accept=accept)))
