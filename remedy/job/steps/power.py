"""Steps powerOff, powerOn and powerCycle, and the provider's part of step reboot. Pure.

The provider's reading proves off and on; only a new boot ID proves a boot. A machine that was
switched off in order to boot is switched on again whatever else has changed meanwhile.
"""

from kubenode.api.duration import format_duration
from kubenode.api.v1alpha1 import Step
from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from kubenode.providers.port import Can, PowerState
from remedy.job.model import Job, JobAct, JobObservation, NodeObservation
from remedy.job.moves import Move
from remedy.job.power_record import OUTCOME, WAS, FenceAct, PowerAct
from remedy.job.records import begun, done, failed, put
from remedy.job.steps.handler import StepHandler
from remedy.job.steps.provider_request import (
    GONE,
    OFF,
    ON,
    RESET,
    No,
    ProviderRequest,
    free_to_ask,
    get_request_word,
    go_on,
    has_step_ended,
    never_shown,
    proven_dark,
    unread,
    withdrawn,
    write,
)
from remedy.job.undo import disowned


def rebooted(before: str, now: str) -> bool:
    """Report whether the host has booted again. Both are boot IDs; "" is unknown and proves
    nothing.
    """
    return bool(before and now and before != now)


def power_off(
    job: Job, observation: JobObservation, node: NodeObservation, step: Step, record: StepStatus
) -> Move:
    """Switch the machine off; done when the provider reports it off or gone."""

    def no(why: str) -> Move:
        return failed(job, observation, step, record, why)

    power = observation.power
    if power is not None and proven_dark(job, power):
        return done(job, observation, record, f"proven dark: {power.description}")
    if has_step_ended(step, record, observation):
        return no(_not_in_time(job, observation, step, "proven dark"))
    if power is None or power.power is None:
        return unread(job, observation, record, no)
    if get_request_word(record):
        return go_on(job, observation, record, OFF, no)
    if not power.can.off:
        return no(f"{power.provider} cannot switch this machine off")
    if not job.finalizer:  # without it a deleted job would leave the machine off
        return job, JobAct.ADD_FINALIZER
    return free_to_ask(job, observation, evidence=not begun(job)) or write(
        job, observation, node, step, record, OFF, **{WAS: power.description}
    )


def power_on(
    job: Job, observation: JobObservation, node: NodeObservation, step: Step, record: StepStatus
) -> Move:
    """Switch the machine on; done when the provider reports it running."""

    def no(why: str) -> Move:
        return failed(job, observation, step, record, why)

    power = observation.power
    if has_step_ended(step, record, observation):
        return no(_not_in_time(job, observation, step, "switched on"))
    if (move := unfenced(job, node)) is not None:
        return move
    if power is None or power.power is None:
        return unread(job, observation, record, no)
    if power.power.state is PowerState.ON:
        return done(job, observation, record, f"runs: {power.description}")
    if power.power.state is PowerState.GONE:
        return no("the machine is gone: it can be replaced, not switched on")
    if get_request_word(record):
        return go_on(job, observation, record, ON, no)
    return free_to_ask(job, observation, evidence=not begun(job)) or write(
        job, observation, node, step, record, ON, **{WAS: power.description}
    )


def power_cycle(
    job: Job, observation: JobObservation, node: NodeObservation, step: Step, record: StepStatus
) -> Move:
    """Boot the machine through the provider, by off and on where possible."""

    def no(why: str) -> Move:
        return failed(job, observation, step, record, why)

    return boot(job, observation, node, step, record, no, by_reset=False)


def boot(
    job: Job,
    observation: JobObservation,
    node: NodeObservation,
    step: Step,
    record: StepStatus,
    no: No,
    *,
    by_reset: bool,
) -> Move:
    """Boot through the provider: off until proven, then on; or one reset.

    no: what follows when the provider refuses
    by_reset: whether a reset is preferred when the provider can do both
    """
    word = get_request_word(record)
    if word in ("on", "reset") and rebooted(record.boot_id, node.boot_id):
        return done(
            job, observation, record, f"booted again: {node.boot_id}, before {record.boot_id}"
        )
    dark_by_us = word == OFF.word and proven_dark(job, observation.power)
    if has_step_ended(step, record, observation) and not dark_by_us:
        why = _not_in_time(job, observation, step, "back with a new boot")
        return never_shown(job, observation, step, record, why)
    match word:
        case "off":
            return _dark_then_on(job, observation, node, step, record, no)
        case "on":
            return unfenced(job, node) or go_on(job, observation, record, ON, no, check=False)
        case "reset":
            repeatable = observation.power is not None and observation.power.can.repeatable
            no = _make_fallback(job, observation, record, RESET, no)
            return go_on(job, observation, record, RESET, no, repeatable=repeatable)
        case _:
            return _begin(job, observation, node, step, record, no, by_reset=by_reset)


def _dark_then_on(
    job: Job,
    observation: JobObservation,
    node: NodeObservation,
    step: Step,
    record: StepStatus,
    no: No,
) -> Move:
    """Wait until the machine is proven off, then request to switch it on."""
    power = observation.power
    if proven_dark(job, power):
        gone = power is None or power.power is None or power.power.state is PowerState.GONE
        if gone or record.output.get(OUTCOME) == GONE:
            return no("the machine is gone: it can be replaced, not booted")
        return unfenced(job, node) or write(job, observation, node, step, record, ON)
    if power is None or power.power is None:
        return unread(job, observation, record, no)
    return go_on(job, observation, record, OFF, _make_fallback(job, observation, record, OFF, no))


def _make_fallback(
    job: Job, observation: JobObservation, record: StepStatus, refused: ProviderRequest, no: No
) -> No:
    """Return a handler that tries the other way to boot after a refusal: a group would replace a
    machine that is off, and accepts a reset.
    """
    power, other = observation.power, RESET if refused is OFF else OFF
    able = power is not None and (power.can.reset if other is RESET else power.can.off)

    def then(why: str) -> Move:
        if other.word in record.output:
            return no(f"{record.output[other.word]}; {why}")
        if not able:
            return no(why)
        free = withdrawn(job, record)
        spent = free.record
        assert spent is not None
        output = {**spent.output, refused.word: why[:1024]}
        return put(free, spent.model_copy(update={"output": output})), JobAct.NONE

    return then


def _begin(
    job: Job,
    observation: JobObservation,
    node: NodeObservation,
    step: Step,
    record: StepStatus,
    no: No,
    *,
    by_reset: bool,
) -> Move:
    """Record the first request, or fail if no way to boot can work."""
    power = observation.power
    if power is None or power.power is None:
        return unread(job, observation, record, no)
    if not node.boot_id:
        return no("the node reports no boot ID, so a boot could not be proven")
    if power.power.state is PowerState.GONE:
        return no("the machine is gone: it can be replaced, not booted")
    if not power.can.reset and not power.can.off:
        return no(f"{power.provider} can neither reset this machine nor switch it off and on")
    if (stop := free_to_ask(job, observation, evidence=not begun(job))) is not None:
        return stop
    wish = ON if power.dark else _choose_request(power.can, record, by_reset=by_reset)
    if wish is OFF and not job.finalizer:
        return job, JobAct.ADD_FINALIZER
    return unfenced(job, node) or write(
        job, observation, node, step, record, wish, **{WAS: power.description}
    )


def _choose_request(can: Can, record: StepStatus, *, by_reset: bool) -> ProviderRequest:
    """Return the preferred way to boot, of those that the provider has and did not refuse yet."""
    able = [wish for wish, has in ((OFF, can.off), (RESET, can.reset)) if has]
    if by_reset:
        able.reverse()
    return next((wish for wish in able if wish.word not in record.output), able[0])


def unfenced(job: Job, node: NodeObservation) -> Move | None:
    """Remove our fence before the machine may run again; None when there is none."""
    if not job.status.owned.fenced:
        return None
    if node.out_of_service and node.fenced_by == job.mark:
        return job, FenceAct.UNFENCE
    return disowned(job, "fenced"), JobAct.NONE


def _not_in_time(job: Job, observation: JobObservation, step: Step, what: str) -> str:
    why = f"not {what} within {format_duration(step.body.timeout)}"
    hold, power = job.status.hold, observation.power
    if hold is not None:
        return f"{why}: {hold.message}"
    return (
        why
        if power is None
        else f"{why}; {power.provider or 'no provider'} says {power.description}"
    )


HANDLERS = {
    "powerOff": StepHandler(power_off, PowerAct, polled=True, reads_power=True),
    "powerOn": StepHandler(power_on, PowerAct, polled=True, reads_power=True),
    "powerCycle": StepHandler(power_cycle, PowerAct, polled=True),
}
