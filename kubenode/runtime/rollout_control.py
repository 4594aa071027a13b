"""Pause, resume and undo rollouts of component sets, for the command line and the dashboard."""

from collections.abc import Callable, Mapping

from kubenode.api.meta import Condition
from kubenode.api.rollouts import describe_resume, find_stop, find_undo, undo_spec
from kubenode.api.v1alpha1 import MachineComponentSet
from kubenode.api.v1alpha1.machinecomponentset import SetRevision
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Conflict
from kubenode.runtime.kube.paths import custom

PLURAL = MachineComponentSet.resource.plural
POLL_SECONDS = 0.3
UNDO_TRIES = 5


class PauseNotObserved(Exception):
    """The Machine operator has not observed a pause in time. The set stays paused."""


class UndoChanged(Exception):
    """An undo would not return the set to the revision that the person chose."""


async def read_set(kube: Kube, name: str) -> MachineComponentSet:
    return await kube.get(custom(PLURAL, name), MachineComponentSet.from_server)


async def write_spec(kube: Kube, name: str, spec: Mapping[str, bool]) -> None:
    await kube.patch(custom(PLURAL, name), {"spec": dict(spec)})


async def resume_set(
    kube: Kube,
    name: str,
    limit_seconds: float,
    on_stop: Callable[[Condition], None] = lambda stop: None,
    on_wait: Callable[[float], None] = lambda waited: None,
) -> str:
    """Let a set continue that a person or the set itself has stopped. Return what follows.

    A set that stopped by itself continues only after the operator has observed a pause by a person.
    So this function pauses the set, waits for the operator, and ends the pause. If that is
    interrupted, the set stays paused; another call completes the work.

    limit_seconds: time for the operator to observe the pause.
    on_stop, on_wait: called with the stop, and with the seconds waited so far.
    Raises PauseNotObserved and KubeError.
    """
    before = await read_set(kube, name)
    if (stop := find_stop(before)) is not None:
        on_stop(stop)
        await write_spec(kube, name, {"paused": True})
        await wait_for_pause(kube, name, limit_seconds, on_wait)
    await write_spec(kube, name, {"paused": False, "frozen": False})
    return describe_resume(before, stop)


async def wait_for_pause(
    kube: Kube, name: str, limit_seconds: float, on_wait: Callable[[float], None]
) -> None:
    """Wait until the operator has observed the pause. Raises PauseNotObserved."""
    clock, began = kube.clock, kube.clock.monotonic()
    while find_stop(await read_set(kube, name)) is not None:
        waited = clock.monotonic() - began
        if waited >= limit_seconds:
            raise PauseNotObserved
        on_wait(waited)
        await clock.sleep(POLL_SECONDS)


async def undo_rollout(kube: Kube, name: str, revision: str) -> SetRevision:
    """Ask for the content of the revision to which the set returns, and return it.

    revision: name of the revision that the person chose. Raises UndoChanged and KubeError.
    """
    for _ in range(UNDO_TRIES):
        set_ = await read_set(kube, name)
        target = find_undo(set_)
        if target is None or target.name != revision:
            raise UndoChanged
        version = {"resourceVersion": set_.metadata.resource_version}
        try:
            await kube.patch(
                custom(PLURAL, name), {"metadata": version, "spec": undo_spec(set_, target)}
            )
        except Conflict:
            continue  # the operator writes the status often
        return target
    raise UndoChanged
