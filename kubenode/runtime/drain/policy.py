"""Which pods have to leave a node, how, and in which turn. Pure.

These pods stay: pods of DaemonSets (which would come straight back), mirror pods (which the kubelet
reads from files), pods that have ended, and, unless a policy says otherwise, pods without a
controller: an eviction loses them for ever, while the kubelet restarts them after a reboot.
Protected namespaces go after ordinary pods, our own controllers last (failure mode F18): the
process that drains the node must not evict itself first.
"""

from collections.abc import Collection
from dataclasses import dataclass

from kubenode.api.v1alpha1.steps import MigrateStep, PodPolicy, PodPolicyMode, PodVolume
from kubenode.runtime.kube.objects import KubeOwnerReference, Pod

MIRROR = "kubernetes.io/config.mirror"
ENDED = frozenset({"Succeeded", "Failed"})
NO_OWNER = "None"
"""Stands in `ownerKinds` for pods without a controller."""
STATELESS = frozenset({"ReplicaSet", "ReplicationController", "Job"})
STATEFUL_SET = "StatefulSet"


@dataclass(frozen=True, slots=True)
class Protection:
    """Namespaces whose pods leave later.

    namespaces: their pods leave after ordinary ones, and follow only policies that name them
    own: namespace of our own controllers, which leave last
    """

    namespaces: frozenset[str] = frozenset({"kube-system"})
    own: str = "kubenode-system"

    def covers(self, pod: Pod) -> bool:
        return pod.metadata.namespace in self.namespaces or self.is_own(pod)

    def is_own(self, pod: Pod) -> bool:
        """Decide by namespace alone, because anybody who creates pods may give them any label."""
        return pod.metadata.namespace == self.own


def owner(pod: Pod) -> KubeOwnerReference | None:
    return next((o for o in pod.metadata.owner_references if o.controller), None)


def owner_kind(pod: Pod) -> str:
    ref = owner(pod)
    return ref.kind if ref is not None else NO_OWNER


def movable(pod: Pod) -> bool:
    return (
        pod.status.phase not in ENDED
        and MIRROR not in pod.metadata.annotations
        and owner_kind(pod) != "DaemonSet"
    )


def ready(pod: Pod) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)


def volumes(pod: Pod, local: Collection[str]) -> frozenset[PodVolume]:
    """Return the kinds of data that the pod has on its node; `local` are pods with local PVs."""
    kinds = set()
    for volume in pod.spec.volumes:
        if volume.empty_dir is not None:
            kinds.add(PodVolume.EMPTY_DIR)
        if volume.host_path is not None:
            kinds.add(PodVolume.HOST_PATH)
    if pod.metadata.key in local:
        kinds.add(PodVolume.LOCAL)
    return frozenset(kinds)


def policy_of(
    pod: Pod, step: MigrateStep, protection: Protection, local: Collection[str] = ()
) -> PodPolicy | None:
    """Return the first policy that matches the pod; a field that a policy omits matches every pod.

    Pods of protected namespaces and our own follow only a policy that names their namespace.
    """
    for policy in step.pod_policies:
        named = pod.metadata.namespace in policy.namespaces
        if not named and (policy.namespaces or protection.covers(pod)):
            continue
        if policy.owner_kinds and owner_kind(pod) not in policy.owner_kinds:
            continue
        if policy.volumes and not volumes(pod, local) & set(policy.volumes):
            continue
        if policy.selector is not None and not policy.selector.matches(pod.metadata.labels):
            continue
        return policy
    return None


def mode_of(pod: Pod, policy: PodPolicy | None) -> PodPolicyMode:
    if policy is not None:
        return policy.mode
    return PodPolicyMode.NEVER if owner(pod) is None else PodPolicyMode.EVICT


def turn(pod: Pod, protection: Protection) -> int:
    """Return 0 for ordinary pods, 1 for protected ones, 2 for ours. A lower turn ends first."""
    if protection.is_own(pod):
        return 2
    return 1 if pod.metadata.namespace in protection.namespaces else 0


def rank(pod: Pod) -> int:
    """Return the rank in a turn: 0 without state, 1 with possible state, 2 without a controller.

    Pods of a lower rank are evicted first.
    """
    kind = owner_kind(pod)
    if kind == NO_OWNER:
        return 2
    return 0 if kind in STATELESS else 1


def ordinal(pod: Pod) -> int:
    """Return the ordinal of a StatefulSet's pod. The highest leaves first, as in an update."""
    _, _, number = pod.metadata.name.rpartition("-")
    return int(number) if number.isdigit() else 0
