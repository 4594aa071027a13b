"""Which pods have to leave a node, and in which order. Pure.

Left alone: pods of DaemonSets (they would come straight back), mirror pods (the kubelet reads them
from files), pods that have ended. Protected namespaces go after the ordinary pods, our own
controllers last of all (failures.md F18): what drains the node must not drain itself first.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kubenode.api.v1alpha1.ladder import MigrateStep, PodPolicy, PodPolicyMode
from kubenode.runtime.kube.objects import OwnerReference, Pod
from remedy.job.model import Pods

MIRROR = "kubernetes.io/config.mirror"
ENDED = frozenset({"Succeeded", "Failed"})
PART_OF = ("app.kubernetes.io/part-of", "kubenode")
REPLICA_LABELS = (
    "statefulset.kubernetes.io/pod-name",
    "pod-template-hash",
    "batch.kubernetes.io/controller-uid",
)
"""Labels that a pod shares with its replacement and with few others, by who sets them."""


@dataclass(frozen=True, slots=True)
class Protection:
    """namespaces  whose pods leave after the ordinary ones
    own          the namespace of our own controllers, which leave last
    """

    namespaces: frozenset[str] = frozenset({"kube-system"})
    own: str = "kubenode-system"


def owner(pod: Pod) -> OwnerReference | None:
    return next((o for o in pod.metadata.owner_references if o.controller), None)


def movable(pod: Pod) -> bool:
    ref = owner(pod)
    return (
        pod.status.phase not in ENDED
        and MIRROR not in pod.metadata.annotations
        and (ref is None or ref.kind != "DaemonSet")
    )


def policy_of(pod: Pod, step: MigrateStep) -> PodPolicy | None:
    """The first policy that fits. What a policy leaves out, fits."""
    ref = owner(pod)
    for policy in step.pod_policies:
        if policy.namespaces and pod.metadata.namespace not in policy.namespaces:
            continue
        if policy.owner_kinds and (ref is None or ref.kind not in policy.owner_kinds):
            continue
        if policy.selector is not None and not policy.selector.matches(pod.metadata.labels):
            continue
        return policy
    return None


def turn(pod: Pod, protection: Protection) -> int:
    """0 for ordinary pods, 1 for protected ones, 2 for ours: a lower turn is over first."""
    key, value = PART_OF
    if pod.metadata.namespace == protection.own or pod.metadata.labels.get(key) == value:
        return 2
    return 1 if pod.metadata.namespace in protection.namespaces else 0


def plan(pods: Iterable[Pod], step: MigrateStep, protection: Protection) -> Pods:
    """Who has to leave, and whom to evict next. Keys are `namespace/name`."""
    leaving: list[tuple[int, Pod]] = []
    patient = 0
    for pod in pods:
        policy = policy_of(pod, step)
        mode = policy.mode if policy is not None else PodPolicyMode.EVICT
        if not movable(pod) or mode is PodPolicyMode.NEVER:
            continue
        if mode is PodPolicyMode.WAIT_FOR_COMPLETION:
            patient += 1
        else:
            leaving.append((turn(pod, protection), pod))
    first = min((t for t, _ in leaving), default=0)
    due = sorted(
        pod.metadata.key
        for t, pod in leaving
        if t == first and pod.metadata.deletion_timestamp is None
    )
    waiting = f"{patient} pods run to completion" if patient else ""
    return Pods(left=len(leaving) + patient, due=tuple(due), waiting=waiting)


def replica_label(pod: Pod) -> str:
    """A label selector that finds the pod's replacement, "" for a pod that nobody replaces."""
    if owner(pod) is None:
        return ""
    labels = pod.metadata.labels
    return next((f"{k}={labels[k]}" for k in REPLICA_LABELS if k in labels), "")
