"""Users whose acts the admission webhook does not check. No I/O.

The cloud controller deletes a Node because its machine is already gone; a refusal would leave a
Node without a machine. Autoscalers have their own budgets and retry for ever. Neither is checked
unless a person lists it.

Sources of the names:
- kubernetes, staging/src/k8s.io/cloud-provider/app/controllermanager.go: the controllers of nodes
  and of their life cycle call as "node-controller"; with --use-service-account-credentials that is
  the service account of that name in kube-system.
- kubernetes.io, Cloud Controller Manager Administration: service account cloud-controller-manager
  in kube-system; OpenShift runs it in openshift-cloud-controller-manager.
- kubernetes/autoscaler, cluster-autoscaler/cloudprovider/aws/examples: cluster-autoscaler in
  kube-system; its Helm chart names it RELEASE-PROVIDER-cluster-autoscaler.
- karpenter.sh, Getting Started: kube-system/karpenter; karpenter/karpenter before v1.
"""

from collections.abc import Collection
from dataclasses import dataclass

from defender.server.auth.holders import ACCOUNT

CLOUD_CONTROLLERS = (
    "system:cloud-controller-manager",
    f"{ACCOUNT}kube-system:cloud-controller-manager",
    f"{ACCOUNT}kube-system:node-controller",
    f"{ACCOUNT}openshift-cloud-controller-manager:cloud-controller-manager",
)
AUTOSCALERS = (
    f"{ACCOUNT}kube-system:cluster-autoscaler",
    f"{ACCOUNT}kube-system:cluster-autoscaler-aws-cluster-autoscaler",
    f"{ACCOUNT}kube-system:karpenter",
    f"{ACCOUNT}karpenter:karpenter",
)
OURS = ("kubenode-remedy", "kubenode-machine", "kubenode-defender")
"""Service accounts of the chart, which hold permits for their acts."""


@dataclass(frozen=True, slots=True)
class Callers:
    """Users with special treatment.

    exempt: users that are not checked, besides the well-known ones.
    listed: well-known users that are checked all the same.
    ours: users that ask for permits before they act.
    """

    exempt: frozenset[str] = frozenset()
    listed: frozenset[str] = frozenset()
    ours: frozenset[str] = frozenset()

    def is_exempt(self, user: str) -> bool:
        """Return whether the user is not checked."""
        if user in self.exempt:
            return True
        return user in (*CLOUD_CONTROLLERS, *AUTOSCALERS) and user not in self.listed


def callers(namespace: str, exempt: Collection[str] = (), listed: Collection[str] = ()) -> Callers:
    """Return the callers for an installation in `namespace`."""
    ours = frozenset(f"{ACCOUNT}{namespace}:{name}" for name in OURS)
    return Callers(frozenset(exempt), frozenset(listed), ours)
