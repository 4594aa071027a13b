"""Protects a node from autoscalers while a job may take pods off it: no autoscaler may remove it.
Pure.

The job sets only annotations that are absent, names its own in PROTECTED_BY in the same patch, and
removes only those.
"""

from collections.abc import Mapping

from kubenode.api.v1alpha1 import Disruption
from remedy.job.model import Act, Job, JobAct, JobObservation, NodeObservation

PROTECTED_BY = "kubenode.io/protected-by"
"""Annotation on a Node, `job key,key`: the job and the autoscaler annotations that it set."""
MARKS: Mapping[str, str] = {
    "cluster-autoscaler.kubernetes.io/scale-down-disabled": "true",
    "karpenter.sh/do-not-disrupt": "true",
}
"""Annotations that keep the Cluster Autoscaler and Karpenter from removing a node."""
CLASSES = frozenset({Disruption.PODS, Disruption.NODE})
"""Disruption classes of rungs that need this protection."""


def missing(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys that are absent; a key with any value counts as set by somebody."""
    return tuple(key for key in MARKS if key not in annotations)


def ours(annotations: Mapping[str, str], job: str) -> tuple[str, ...]:
    """Return the keys that are set because this job set them."""
    owner, _, keys = annotations.get(PROTECTED_BY, "").partition(" ")
    if owner != job:
        return ()
    return tuple(k for k in keys.split(",") if k in MARKS and annotations.get(k) == MARKS[k])


def set_by(annotations: Mapping[str, str]) -> str:
    """Return the name of the job that set the node's autoscaler annotations; "" for none."""
    return annotations.get(PROTECTED_BY, "").partition(" ")[0]


def added(annotations: Mapping[str, str], job: str) -> dict[str, str | None]:
    """Return the annotations that protect the node; empty if nothing is to be added. Those left
    behind by an earlier job are taken over, since a node has one open job.
    """
    before = set_by(annotations)
    keys = [*missing(annotations), *(ours(annotations, before) if before else ())]
    if not keys or before == job:
        return {}
    return {**{key: MARKS[key] for key in keys}, PROTECTED_BY: f"{job} {','.join(keys)}"}


def removed(annotations: Mapping[str, str], job: str) -> dict[str, str | None]:
    """Return the annotations to remove, as keys with None; empty if none is ours."""
    if set_by(annotations) != job:
        return {}
    return dict.fromkeys([*ours(annotations, job), PROTECTED_BY])


def protect(job: Job, observation: JobObservation, node: NodeObservation) -> tuple[Job, Act] | None:
    """Set the annotations before a rung of class Pods or Node begins; None when that is done."""
    if job.disruption not in CLASSES or observation.node is None:
        return None
    tried = observation.act_result is not None and observation.act_result.act is JobAct.PROTECT
    if tried or not (added(node.annotations, job.mark) or _unowned(job, node)):
        return None
    if not job.status.owned.scale_down_disabled:
        owned = job.status.owned.model_copy(update={"scale_down_disabled": True})
        return job.having(owned=owned), JobAct.NONE
    if not job.finalizer:
        return job, JobAct.ADD_FINALIZER
    return job, JobAct.PROTECT


def _unowned(job: Job, node: NodeObservation) -> bool:
    """Report whether our annotations are on the node, and the status that said so was removed."""
    return there(job, node) and not job.status.owned.scale_down_disabled


def there(job: Job, node: NodeObservation | None) -> bool:
    """Report whether annotations of this job are on its node."""
    return node is not None and set_by(node.annotations) == job.mark
