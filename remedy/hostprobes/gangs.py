"""Recognizes pods that belong to a gang: if one leaves its node, all stop. Pure.

A pod counts as a member of a gang unless something shows that it is not: evicting a gang by mistake
costs hours of work on the most expensive machines, while a pod wrongly counted as a member costs a
question to a person. The author of a pod may decide it: label `kubenode.io/gang`.

Sources: the documentation of each API group and scheduler that is named here, as of 2026.
"""

from collections.abc import Mapping
from typing import Any

OWN_LABEL = "kubenode.io/gang"
"""Label on the pod, `"true"` or `"false"`: its author's decision takes precedence."""
GANG_MARKS = frozenset(
    {
        "scheduling.k8s.io/group-name",  # Volcano, kube-batch
        "scheduling.volcano.sh/group-name",
        "volcano.sh/job-name",
        "scheduling.x-k8s.io/pod-group",  # coscheduling of scheduler-plugins
        "pod-group.scheduling.sigs.k8s.io",  # the same before 0.24
        "gang.scheduling.koordinator.sh/name",
        "yunikorn.apache.org/task-group-name",
        "pod-group-name",  # KAI scheduler, an annotation
        "pod-group.scheduling.run.ai/name",
        "grove.io/podgang",
        "training.kubeflow.org/job-name",  # training operator, MPI operator v2
        "trainer.kubeflow.org/trainjob-ancestor-step",
        "pytorch-job-name",  # the operators before the training operator
        "tf-job-name",
        "mpi-job-name",
        "jobset.sigs.k8s.io/jobset-name",
        "leaderworkerset.sigs.k8s.io/name",
        "kueue.x-k8s.io/pod-group-name",
        "ray.io/cluster",
        "batch.kubernetes.io/job-completion-index",  # an Indexed Job: its pods may need each other
    }
)
"""Labels or annotations of pods in gangs."""
GANG_SCHEDULERS = frozenset({"slurm-bridge-scheduler"})
APART = frozenset(
    {
        "apps",
        "batch",
        "v1",  # Node (a static pod), ReplicationController
        "actions.github.com",
        "apps.kruise.io",
        "apps.openshift.io",
        "argoproj.io",
        "kubevirt.io",
        "networking.istio.io",
        "postgresql.cnpg.io",
        "sparkoperator.k8s.io",
        "tekton.dev",
    }
)
"""API groups with controllers that replace a lost pod without touching the others."""


def in_gang(pod: Mapping[str, Any]) -> bool:
    """Return whether the pod is, or may be, a member of a gang."""
    meta, spec = pod["metadata"], pod.get("spec") or {}
    labels = meta.get("labels") or {}
    own = labels.get(OWN_LABEL)
    if own in ("true", "false"):
        return bool(own == "true")
    return bool(
        spec.get("schedulingGroup")
        or spec.get("workloadRef")  # Kubernetes 1.35
        or spec.get("schedulerName") in GANG_SCHEDULERS
        or not GANG_MARKS.isdisjoint({*labels, *(meta.get("annotations") or {})})
        or not _apart(meta.get("ownerReferences") or ())
    )


def _apart(owners: Any) -> bool:
    """Report whether the controller is known to replace pods one by one; a pod without one is
    alone.
    """
    for owner in owners:
        if owner.get("controller"):
            group, _, _ = str(owner.get("apiVersion", "")).partition("/")
            return group in APART
    return True
