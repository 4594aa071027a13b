"""When pods are deleted instead of evicted, and which. Pure.

Budgets are ignored only where the rule says so for these pods (DeleteAfter), at the end of the
step's time with a person's approval, or on a host that the provider proves to be off; only the last
one skips the grace period.
"""

from kubenode.runtime.drain.observation import Pods
from remedy.job.model import JobObservation


def proven_off(observation: JobObservation) -> bool:
    """Report whether the provider proves that nothing runs on the host: waiting for its kubelet is
    useless.
    """
    return observation.power is not None and observation.power.dark


def deletion(observation: JobObservation) -> tuple[tuple[str, ...], bool]:
    """Return the keys of the pods that DELETE_PODS deletes, and whether without grace."""
    pods = observation.pods or Pods()
    if proven_off(observation):
        return pods.every, True
    if pods.delete:
        return pods.delete, False
    going = {g.pod for g in pods.going}
    return tuple(key for key in pods.every if key not in going), False
