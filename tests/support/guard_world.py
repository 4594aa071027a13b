"""The admission webhook over a risk control in memory; what it would write is kept instead."""

import json
from datetime import timedelta
from typing import Any

from prometheus_client import CollectorRegistry
from support.clock import FakeClock
from support.defender_core import Core, a_node, a_policy

from defender.client import DefenderUnreachable
from defender.decision.policies import LoadedPolicy
from defender.webhook.callers import callers
from defender.webhook.guard import GuardContext, NodeGuard
from defender.webhook.metrics import GuardMetrics
from kubenode.api.v1alpha1 import Ask, Reason, Verdict
from kubenode.runtime.admission.app import CannotJudge
from kubenode.runtime.kube.client import JSON, Kube, as_dict
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.objects import Node
from kubenode.runtime.recorder import EventRecorder

NOWHERE: Any = None
REMEDY = "system:serviceaccount:kubenode-system:kubenode-remedy"
MASTERS = ("system:masters", "system:authenticated")


def guarding(most: int = 1, **guard: Any) -> LoadedPolicy:
    """At most so many acts at once; `guard` as in the policy's spec."""
    limits = [{"scope": "Cluster", "maxConcurrent": most}]
    return a_policy(limits=limits, guard=guard, smallPool={"nodes": 0})


class Objects(Kube):
    """Pods and permits that can be read live."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(NOWHERE, clock=clock)
        self.pods: dict[str, dict[str, Any]] = {}
        self.permits: list[dict[str, Any]] = []
        self.fails: Exception | None = None
        self.read = 0
        self.queries: list[Any] = []

    async def call(
        self,
        method: str,
        path: str,
        query: Any = None,
        body: Any = None,
        content_type: str = JSON,
        decode: Any = as_dict,
        timeout: float | None = None,  # noqa: ASYNC109  as Kube's
        attempts: int | None = None,
    ) -> Any:
        self.read += 1
        self.queries.append(query)
        if self.fails is not None:
            raise self.fails
        if "/pods/" in path:
            pod = self.pods.get(path.rsplit("/", 1)[1])
            if pod is None:
                raise NotFound(404, "NotFound", path)
            return decode(json.dumps(pod).encode())
        return {"items": self.permits}


class GuardWorld:
    """Ten healthy nodes n0 to n9, each with a pod p0 to p9."""

    def __init__(self, *policies: LoadedPolicy) -> None:
        self.clock = FakeClock()
        self.core = Core(*policies)
        self.core.fleet(10)
        self.kube = Objects(self.clock)
        for n in range(10):
            self.pod(f"p{n}", f"n{n}")
        self.says: Verdict | None = None
        self.unreachable = False
        self.renewed: list[str] = []
        self.registry = CollectorRegistry()
        self.recorder = EventRecorder(NOWHERE, "test", self.clock)
        self.known = {f"n{n}": a_node(f"n{n}") for n in range(10)}
        world = GuardContext(
            self, self.core.control, self.known.get, self.kube, self.clock,
            callers("kubenode-system", exempt=["ci"]),
        )  # fmt: skip
        self.guard = NodeGuard(world, self.recorder, GuardMetrics(self.registry))

    def pod(self, name: str, node: str, **annotations: str) -> None:
        meta = {"name": name, "namespace": "shop", "annotations": annotations}
        self.kube.pods[name] = {"metadata": meta, "spec": {"nodeName": node}}

    # -- as Permits ---------------------------------------------------------------------------

    async def ask(self, ask: Ask) -> Verdict:
        if self.unreachable:
            raise DefenderUnreachable("away")
        if self.says is not None:
            return self.says
        if ask.dry_run:
            return self.core.judge(ask).model_copy(update={"permit": ""})
        verdict = self.core.ask(ask)
        held = self.core.ledger.get(verdict.permit) if verdict.permit else None
        if held is None:
            return verdict
        return verdict.model_copy(update={"expires_at": held.expires_at})

    async def renew(self, permit: str) -> Verdict:
        self.renewed.append(permit)
        return Verdict(allowed=True, reason=Reason.GRANTED, permit=permit)

    # -- acts ---------------------------------------------------------------------------------

    async def delete(self, node: str, **who: Any) -> dict[str, Any]:
        old = an_object(self.known[node], who.pop("annotations", {}))
        return self._response(await self.guard.nodes(a_review("DELETE", old=old, **who), 2.0))

    async def cordon(self, node: str, **who: Any) -> dict[str, Any]:
        annotations = who.pop("annotations", {})
        old = an_object(self.known[node], {})
        new = an_object(self.known[node], annotations)
        new["spec"]["unschedulable"] = True
        raw = a_review("UPDATE", old=old, new=new, **who)
        return self._response(await self.guard.nodes(raw, 2.0))

    async def evict(self, pod: str, **who: Any) -> dict[str, Any]:
        meta = {"name": pod, "namespace": "shop", "annotations": who.pop("annotations", {})}
        new = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
        raw = a_review("CREATE", new=new, resource="pods", sub="eviction", **who)
        return self._response(await self.guard.evictions(raw, 2.0))

    def _response(self, body: dict[str, Any]) -> dict[str, Any]:
        response: dict[str, Any] = body["response"]
        assert response["uid"] == "r1"
        return response

    # -- what came of it ----------------------------------------------------------------------

    def held(self) -> list[tuple[str, str]]:
        """Node and holder of each open permit."""
        return sorted((held.node, held.holder.name) for held in self.core.ledger.open())

    def count(self, act: str, outcome: str) -> float:
        labels = {"act": act, "outcome": outcome}
        return self.registry.get_sample_value("kubenode_defender_guard_total", labels) or 0.0

    def told(self) -> list[str]:
        pending = self.recorder._pending
        return [pending.get_nowait()["reason"] for _ in range(pending.qsize())]

    def step(self, **time: float) -> None:
        self.clock.step(timedelta(**time))
        self.core.step(**time)


def an_object(node: Node, annotations: dict[str, str]) -> dict[str, Any]:
    conditions = [{"type": c.type, "status": c.status} for c in node.status.conditions]
    taints = [{"key": taint.key, "effect": "NoExecute"} for taint in node.spec.taints]
    meta: dict[str, Any] = {"name": node.metadata.name, "uid": node.metadata.uid}
    if node.metadata.deletion_timestamp is not None:
        meta["deletionTimestamp"] = node.metadata.deletion_timestamp.isoformat()
    return {
        "metadata": {**meta, "annotations": annotations, "labels": dict(node.metadata.labels)},
        "spec": {"taints": taints},
        "status": {"conditions": conditions},
    }


def a_review(
    operation: str,
    *,
    old: dict[str, Any] | None = None,
    new: dict[str, Any] | None = None,
    user: str = "ann",
    groups: tuple[str, ...] = ("system:authenticated",),
    dry_run: bool = False,
    resource: str = "nodes",
    sub: str = "",
) -> bytes:
    meta = (new or old or {"metadata": {}})["metadata"]
    request = {
        "uid": "r1",
        "operation": operation,
        "name": meta.get("name", ""),
        "namespace": meta.get("namespace", ""),
        "resource": {"group": "", "version": "v1", "resource": resource},
        "subResource": sub,
        "userInfo": {"username": user, "groups": list(groups)},
        "dryRun": dry_run,
        "object": new,
        "oldObject": old,
    }
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(body).encode()


__all__ = ["MASTERS", "REMEDY", "CannotJudge", "GuardWorld", "a_review", "guarding"]
