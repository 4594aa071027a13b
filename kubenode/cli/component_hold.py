"""`kubenode component pause`, `resume` and `freeze`: stop the rollout of a set, or let it go on."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kubenode.api.v1alpha1 import MachineComponentSet
from kubenode.api.v1alpha1.machinecomponentset import ComponentSetConditionType
from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.exits import Refusal, say
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Forbidden, NotFound
from kubenode.runtime.kube.paths import custom
from machine.componentset.messages import named
from machine.componentset.rollout import STICKY, ConditionMessage, RolloutReason

PLURAL = MachineComponentSet.resource.plural
NOTED_SECONDS = 150.0
"""Time for the operator to observe a pause. It usually takes a second; an operator that has just
started first learns which agents are alive.
"""
POLL_SECONDS = 0.3
TELL_SECONDS, AGAIN_SECONDS = 3.0, 15.0
WAITS_FOR = (
    f"waits until the Machine operator has seen the pause, {NOTED_SECONDS:.0f} s at most; one that"
    " has just started learns first which agents live"
)


async def hold_command(
    name: str, spec: Mapping[str, bool], kubeconfig: str | None, context: str | None
) -> None:
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube, {PLURAL})
        with refusals(name):
            await _write(kube, name, spec)
    _say(name, ", ".join(f"{key} {str(value).lower()}" for key, value in spec.items()))


async def resume_command(name: str, kubeconfig: str | None, context: str | None) -> None:
    """Let a set go on that a person or the set itself has stopped.

    A set that stopped by itself goes on only after the operator has observed a pause by a person.
    So this command pauses the set, waits for the operator, and ends the pause. If it is killed in
    between, the set stays paused; running it again completes the work.
    """
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube, {PLURAL})
        with refusals(name):
            before = await _read(kube, name)
            if (stop := stopped(before)) is not None:
                _say(name, f"it stopped by itself, {stop.reason}: {stop.message}")
                await _write(kube, name, {"paused": True})
                await noted(kube, name)
            await _write(kube, name, {"paused": False, "frozen": False})
            _say(name, resumed(before, stop))


def stopped(set_: MachineComponentSet) -> ConditionMessage | None:
    """Return why the set stopped by itself; None if it did not."""
    pause = _paused(set_)
    return pause if pause is not None and pause.reason in STICKY else None


def resumed(before: MachineComponentSet, stop: ConditionMessage | None) -> str:
    """Describe what happens to the set after the command.

    before: the set as it was before the command.
    stop: why it had stopped by itself; None if it had not.
    """
    status, batch = before.status, before.status.batch
    if status.rejected_revision and status.rejected_revision == status.update_revision:
        return (
            f"paused false, frozen false; revision {status.rejected_revision} was rolled back and"
            " is not tried again: ask for another component or other values"
        )
    pause = _paused(before)
    if pause is not None and pause.reason == RolloutReason.MELTDOWN:
        return f"paused false, frozen false; it still waits, {pause.reason}: {pause.message}"
    if stop is None:
        stop_fields = [field for field in ("paused", "frozen") if getattr(before.spec, field)]
        return (
            f"goes on: {' and '.join(stop_fields)} no more"
            if stop_fields
            else "was not held: nothing changes"
        )
    if batch is not None and batch.failed:
        return f"goes on: batch {batch.index} tries {named(batch.failed)} once more"
    return f"goes on with batch {batch.index}" if batch is not None else "goes on"


def _paused(set_: MachineComponentSet) -> ConditionMessage | None:
    conditions = set_.status.conditions
    paused = next((c for c in conditions if c.type == ComponentSetConditionType.PAUSED), None)
    if paused is None or paused.status != "True":
        return None
    return ConditionMessage(paused.reason, paused.message)


async def noted(kube: Kube, name: str) -> None:
    """Wait until the operator has observed the pause, and report the wait. Raises Refusal."""
    clock, began = kube.clock, kube.clock.monotonic()
    tell = TELL_SECONDS
    while stopped(await _read(kube, name)) is not None:
        waited = clock.monotonic() - began
        if waited >= NOTED_SECONDS:
            raise Refusal(
                f"the Machine operator took no note of {name} in {NOTED_SECONDS:.0f} s: does"
                " `kubenode run machine` run and lead, and what do its logs say? The set stays"
                f" paused; then say `kubenode component resume {name}` again"
            )
        if waited >= tell:
            first = tell == TELL_SECONDS
            _say(name, f"{WAITS_FOR}, {waited:.0f} s" if first else f"still waits, {waited:.0f} s")
            tell += AGAIN_SECONDS
        await clock.sleep(POLL_SECONDS)


async def _read(kube: Kube, name: str) -> MachineComponentSet:
    return await kube.get(custom(PLURAL, name), MachineComponentSet.from_server)


async def _write(kube: Kube, name: str, spec: Mapping[str, bool]) -> None:
    await kube.patch(custom(PLURAL, name), {"spec": dict(spec)})


def _say(name: str, text: str) -> None:
    say(f"MachineComponentSet {name}: {text}")


@contextmanager
def refusals(name: str) -> Iterator[None]:
    """Turn errors of the API server into a Refusal that says what to do."""
    try:
        yield
    except NotFound as error:
        known = "`kubenode component sets` lists those that are"
        raise Refusal(f"there is no MachineComponentSet {name}; {known}") from error
    except Forbidden as error:
        raise Refusal(
            f"a right is missing: {error.message}; charts/kubenode/people.yaml has the roles"
        ) from error
