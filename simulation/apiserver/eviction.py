"""The pods/eviction and pods/binding subresources.

Eviction is the only safe way to remove a pod from a node: the server itself decrements
disruptionsAllowed of the pod's PodDisruptionBudget, so two evictions never share one. A disruption
controller, a client like any other, fills the budgets.
Source: kubernetes `pkg/registry/core/pod/storage/eviction.go`.
"""

from typing import Any

from simulation.apiserver.errors import ApiError, Obj, bad_request, conflict
from simulation.apiserver.objects import DeleteOptions, Objects, timestamp
from simulation.apiserver.registry import ServedResource
from simulation.apiserver.selectors import label_selector
from simulation.apiserver.store import Record

PDBS = "poddisruptionbudgets.policy"
MAX_DISRUPTED = 2000
REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."


def evict(objects: Objects, pods: ServedResource, pod: Record, options: DeleteOptions) -> None:
    """Delete `pod` if its budget allows it. Raises ApiError 429 if not now, 500 for two budgets."""
    if not _needs_no_budget(pod.obj):
        budgets = _budgets(objects, pod.obj)
        if len(budgets) > 1:
            raise ApiError(
                500,
                "InternalError",
                "This pod has more than one PodDisruptionBudget, which the eviction subresource "
                "does not support.",
            )
        if budgets and not _unready_may_go(pod.obj, budgets[0].obj):
            _spend(objects, budgets[0], pod.obj["metadata"]["name"], options.dry_run)
    objects.delete(pods, *pod.key, options)


def _needs_no_budget(pod: Obj) -> bool:
    """Return whether the pod runs nothing that a budget protects."""
    phase = (pod.get("status") or {}).get("phase")
    return phase in ("Pending", "Succeeded", "Failed") or bool(
        pod["metadata"].get("deletionTimestamp")
    )


def _budgets(objects: Objects, pod: Obj) -> list[Record]:
    labels = pod["metadata"].get("labels") or {}
    collection = objects.store.collection(PDBS)
    return [
        record
        for record in collection.records(pod["metadata"]["namespace"])
        if label_selector((record.obj.get("spec") or {}).get("selector"))(labels)
    ]


def _unready_may_go(pod: Obj, budget: Obj) -> bool:
    """Return whether a pod that is not Ready may go: by its policy or with enough healthy ones."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    if any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions):
        return False
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status: dict[str, Any] = budget.get("status") or {}
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    return bool(healthy >= desired > 0)


def _spend(objects: Objects, budget: Record, pod: str, dry_run: bool) -> None:
    obj = budget.obj
    name, status = obj["metadata"]["name"], dict(obj.get("status") or {})
    allowed = status.get("disruptionsAllowed", 0)
    if status.get("observedGeneration", 0) < obj["metadata"].get("generation", 0):
        raise _refusal(f"The disruption budget {name} is still being processed by the server.", 10)
    if allowed < 0 or len(status.get("disruptedPods") or {}) > MAX_DISRUPTED:
        raise ApiError(
            403, "Forbidden", f"the status of the disruption budget {name} is not usable"
        )
    if allowed == 0:
        raise _refusal(
            f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods "
            f"and has {status.get('currentHealthy', 0)} currently"
        )
    if dry_run:
        return
    status["disruptionsAllowed"] = allowed - 1
    now = timestamp(objects.now())
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod: now}
    resource = objects.registry.named(PDBS)
    objects.put(resource, budget.key[0], {**obj, "status": status})


def _refusal(why: str, retry_after: int = 0) -> ApiError:
    details: dict[str, object] = {"causes": [{"reason": "DisruptionBudget", "message": why}]}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return ApiError(429, "TooManyRequests", REFUSED, **details)


def bind(objects: Objects, pods: ServedResource, pod: Record, binding: Obj) -> None:
    """Bind `pod` to the node in `binding`.

    Raises ApiError 400, or 409 if the pod is bound or being deleted.
    """
    node = (binding.get("target") or {}).get("name")
    if not node:
        raise bad_request("a Binding names its node in target.name")
    name = pod.obj["metadata"]["name"]
    spec = pod.obj.get("spec") or {}
    if pod.obj["metadata"].get("deletionTimestamp"):
        raise conflict(pods, name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise conflict(pods, name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": timestamp(objects.now()),
    }
    status = dict(pod.obj.get("status") or {})
    others = [c for c in status.get("conditions") or () if c.get("type") != "PodScheduled"]
    status["conditions"] = [*others, scheduled]
    bound = {**pod.obj, "spec": {**spec, "nodeName": node}, "status": status}
    objects.put(pods, pod.key[0], bound)
