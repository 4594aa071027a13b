"""When pods are deleted instead of evicted, and which. Pure.

Past a budget only where the rule says so of these pods (DeleteAfter), or at the end of the step's
time with a person's approval; without grace only with the provider's proof that the host is off.
"""

from kubenode.runtime.drain.words import Pods
from remedy.job.model import JobObservation


def proven_off(seen: JobObservation) -> bool:
    """Nothing on the host runs any more: waiting for its kubelet is in vain."""
    return seen.power is not None and seen.power.dark


def deletion(seen: JobObservation) -> tuple[tuple[str, ...], bool]:
    """Keys of the pods to delete when DELETE_PODS was chosen, and whether without grace."""
    pods = seen.pods or Pods()
    if proven_off(seen):
        return pods.every, True
    if pods.delete:
        return pods.delete, False
    going = {g.pod for g in pods.going}
    return tuple(key for key in pods.every if key not in going), False
