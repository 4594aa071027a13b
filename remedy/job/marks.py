"""The autoscalers' marks: while a job may take pods off a node, nobody else scales it in. Pure.

Only marks that were not there are set, ours are named in an annotation of our own, written in the
same patch, and only those are taken off again.
"""

from collections.abc import Mapping

from kubenode.api.v1alpha1 import Disruption
from remedy.job.model import Job, JobAct, JobObservation, NodeSeen

PROTECTED_BY = "kubenode.io/protected-by"
"""Annotation on a Node: `job key,key`, whose marks they are."""
MARKS: Mapping[str, str] = {
    "cluster-autoscaler.kubernetes.io/scale-down-disabled": "true",
    "karpenter.sh/do-not-disrupt": "true",
}
CLASSES = frozenset({Disruption.PODS, Disruption.NODE})


def missing(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """Marks that nobody has set, whatever they are set to."""
    return tuple(key for key in MARKS if key not in annotations)


def ours(annotations: Mapping[str, str], job: str) -> tuple[str, ...]:
    """Marks that stand there because this job set them."""
    owner, _, keys = annotations.get(PROTECTED_BY, "").partition(" ")
    if owner != job:
        return ()
    return tuple(k for k in keys.split(",") if k in MARKS and annotations.get(k) == MARKS[k])


def set_by(annotations: Mapping[str, str]) -> str:
    """Name of the job whose marks stand there, "" for none."""
    return annotations.get(PROTECTED_BY, "").partition(" ")[0]


def added(annotations: Mapping[str, str], job: str) -> dict[str, str | None]:
    """The annotations that protect the node; empty if there is nothing to add. Marks that a job
    before left behind are taken over: a node has one open job.
    """
    before = set_by(annotations)
    keys = [*missing(annotations), *(ours(annotations, before) if before else ())]
    if not keys or before == job:
        return {}
    return {**{key: MARKS[key] for key in keys}, PROTECTED_BY: f"{job} {','.join(keys)}"}


def removed(annotations: Mapping[str, str], job: str) -> dict[str, str | None]:
    """The annotations to take off; empty if nothing is ours."""
    if set_by(annotations) != job:
        return {}
    return dict.fromkeys([*ours(annotations, job), PROTECTED_BY])


def protect(job: Job, seen: JobObservation, node: NodeSeen) -> tuple[Job, JobAct] | None:
    """Set the marks before anything of class Pods or more begins; None when that is done."""
    if job.disruption not in CLASSES or seen.node is None:
        return None
    tried = seen.heard is not None and seen.heard.act is JobAct.PROTECT
    if tried or not (added(node.annotations, job.mark) or _unowned(job, node)):
        return None
    if not job.status.owned.scale_down_disabled:
        owned = job.status.owned.model_copy(update={"scale_down_disabled": True})
        return job.having(owned=owned), JobAct.NONE
    if not job.finalizer:
        return job, JobAct.ADD_FINALIZER
    return job, JobAct.PROTECT


def _unowned(job: Job, node: NodeSeen) -> bool:
    """Whether our marks stand there, and the status that said so was removed."""
    return there(job, node) and not job.status.owned.scale_down_disabled


def there(job: Job, node: NodeSeen | None) -> bool:
    """Whether marks of this job stand on its node."""
    return node is not None and set_by(node.annotations) == job.mark
