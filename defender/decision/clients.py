"""Clients of Kube Defender: users of other programs, whose permits a policy can limit. No I/O."""

from typing import Final

from kubenode.api.v1alpha1.permit import Holder

REMEDY, MACHINE = "kubenode-remedy", "kubenode-machine"
"""Service accounts of the chart."""
PROGRAMS: Final = {
    "RemedyOperationJob": REMEDY,
    "Machine": MACHINE,
    "MachineSet": MACHINE,
    "MachineComponentSet": MACHINE,
}
"""Kinds of holders for which KubeNode's own programs request permits."""
GUARDED_USER: Final = "User"
"""Kind of the holder of a permit for an act that the admission webhook guards."""


def client_of(holder: Holder) -> str | None:
    """Return the user name of the client, None for KubeNode's own programs.

    Only a program of PROGRAMS may name their kinds, so no client passes as one. Holders without an
    authenticated user, such as those of the bearer of the token file, belong to the client "".
    """
    if holder.kind in PROGRAMS:
        return None
    return holder.name if holder.kind == GUARDED_USER else holder.user or ""
