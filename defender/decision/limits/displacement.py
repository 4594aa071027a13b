"""maxDisplacedPending: the number of displaced pods that are still pending."""

from defender.decision.coverage import BY_DEFAULT, CLUSTER
from defender.decision.limits.case import LimitCase, LimitRefusal
from kubenode.api.v1alpha1 import Reason


def displaced(case: LimitCase) -> LimitRefusal | None:
    """Refuse the act if more pods are pending: then the cluster has no room for further ones."""
    if case.ask.class_ not in BY_DEFAULT:
        return None
    pending, most = case.control.displaced, case.spec.workload.max_displaced_pending
    if pending is None:
        message = "it is not known how many of the pods that were displaced are pending"
        return LimitRefusal(Reason.STALE_DATA, message, case.later(), CLUSTER)
    if pending <= most:
        return None
    message = f"more than {most} pods that were displaced are pending{case.of_policy}"
    return LimitRefusal(Reason.DISPLACED_PODS, message, case.later(), CLUSTER, pending, most)
