"""Who has to leave a node, how, and in whose turn. Pure.

Left alone: pods of DaemonSets (they would come straight back), mirror pods (the kubelet reads them
from files), pods that have ended, and, unless a policy says otherwise, pods without a controller:
evicted they are lost for ever, while the kubelet starts them again after a reboot. Protected
namespaces go after the ordinary pods, our own controllers last of all (failure mode F18): what
drains the node must not drain itself first.
"""

from collections.abc import Collection
from dataclasses import dataclass

from kubenode.api.v1alpha1.steps import MigrateStep, PodPolicy, PodPolicyMode, PodVolume
from kubenode.runtime.kube.objects import KubeOwnerReference, Pod

MIRROR = "kubernetes.io/config.mirror"
ENDED = frozenset({"Succeeded", "Failed"})
NO_OWNER = "None"
"""In `ownerKinds`: pods without a controller."""
STATELESS = frozenset({"ReplicaSet", "ReplicationController", "Job"})
STATEFUL_SET = "StatefulSet"


@dataclass(frozen=True, slots=True)
class Protection:
    """namespaces  whose pods leave after the ordinary ones, and by policies that name them alone
    own          the namespace of our own controllers, which leave last
    """

    namespaces: frozenset[str] = frozenset({"kube-system"})
    own: str = "kubenode-system"

    def covers(self, pod: Pod) -> bool:
        return pod.metadata.namespace in self.namespaces or self.is_own(pod)

    def is_own(self, pod: Pod) -> bool:
        """By namespace alone: anybody who creates pods may give them any label."""
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
    """Which kinds of data the pod keeps on its node; `local` are keys of pods with local PVs."""
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
    """The first policy that fits. What a policy leaves out, fits; but pods of protected namespaces
    and our own follow only a policy that names their namespace.
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
    """0 for ordinary pods, 1 for protected ones, 2 for ours: a lower turn is over first."""
    if protection.is_own(pod):
        return 2
    return 1 if pod.metadata.namespace in protection.namespaces else 0


def rank(pod: Pod) -> int:
    """Within a turn: 0 for what keeps no state, 1 for what may, 2 for what nobody makes anew.

    A lower rank is asked to leave first.
    """
    kind = owner_kind(pod)
    if kind == NO_OWNER:
        return 2
    return 0 if kind in STATELESS else 1


def ordinal(pod: Pod) -> int:
    """Of a StatefulSet's pod; the highest leaves first, as in an update of the set."""
    _, _, number = pod.metadata.name.rpartition("-")
    return int(number) if number.isdigit() else 0
