"""Reads and switches the power of a job's machine through its provider.

A provider's error becomes an outcome with a sentence for people; no provider exception leaves this
module.
"""

import logging
from collections.abc import Awaitable
from dataclasses import replace
from datetime import timedelta
from functools import partial

from kubenode.providers.errors import (
    Busy,
    Denied,
    NoSuchMachine,
    ProviderError,
    Throttled,
    Unreachable,
    Unsupported,
)
from kubenode.providers.port import Provider, ProviderMachine
from kubenode.providers.registry import Providers
from kubenode.runtime.clock import Clock
from kubenode.runtime.disruption.guard import DisruptionGuard
from kubenode.runtime.disruption.request import ActRefused
from remedy.job.model import (
    Job,
    JobActResult,
    JobObservation,
    NodeObservation,
    StepAct,
)
from remedy.job.power_record import PowerAct, machine_of_record
from remedy.power.leave import (
    NodeReader,
    act_request,
    is_written,
    live_target,
    request_of,
    to_refused_result,
)
from remedy.power.observation import PowerObservation, RequestOutcome

log = logging.getLogger(__name__)

NOBODY = "no provider has this machine (spec.providerID {id!r}): configure the one that runs it"


FRESH = 1.0
"""Seconds for which a reading serves the rounds of one run."""
PATIENT = 20.0
"""The same during a drain, as long as the machine is not proven off: many drains read often, and
only a machine that is off changes what they do.
"""


class PowerAccess:
    """Access to machines through providers.

    guard: checks a request to switch off or reset; switching on does no harm and needs none
    nodes: reads a job's Node live
    """

    def __init__(
        self, providers: Providers, clock: Clock, guard: DisruptionGuard, nodes: NodeReader
    ) -> None:
        self._providers, self._guard, self._nodes = providers, guard, nodes
        self._clock = clock
        self._read: dict[str, tuple[float, PowerObservation]] = {}
        """Readings by job, with the monotonic time until which each serves."""

    def of(self, job: Job, node: NodeObservation | None) -> tuple[ProviderMachine, Provider | None]:
        machine = machine_of(job, node)
        return machine, self._providers.of(machine)

    async def power(self, job: Job, node: NodeObservation | None) -> PowerObservation:
        machine, provider = self.of(job, node)
        if provider is None:
            why = NOBODY.format(id=machine.provider_id)
            return PowerObservation(outcome=RequestOutcome.REFUSED, why=why)
        now = self._clock.monotonic()
        self._read = {name: entry for name, entry in self._read.items() if now < entry[0]}
        if job.name in self._read:
            return self._read[job.name][1]
        reading = await self._reading(machine, provider)
        drains = job.step is not None and job.step.migrate is not None
        serves = PATIENT if drains and not reading.dark else FRESH
        self._read[job.name] = (now + serves, reading)
        return reading

    async def _reading(self, machine: ProviderMachine, provider: Provider) -> PowerObservation:
        read = PowerObservation(provider=provider.name, can=provider.can)
        try:
            return replace(read, power=await provider.power(machine))
        except ProviderError as error:
            outcome, after = outcome_of(error)
            return replace(read, outcome=outcome, why=sentence(error), after=after)

    async def act(self, job: Job, what: StepAct, observation: JobObservation) -> JobActResult:
        machine, provider = self.of(job, observation.node)
        if provider is None:
            why = NOBODY.format(id=machine.provider_id)
            return JobActResult(what, outcome=RequestOutcome.REFUSED, error=why)
        self._read.pop(job.name, None)
        id_ = request_of(job)
        if what is PowerAct.POWER_ON:
            return await await_outcome(what, provider.on(machine, id_))
        asking = self._guard.perform(
            act_request(job, what, machine.provider_id),
            intent=partial(is_written, job, what),
            target=lambda: live_target(self._nodes, job),
            act=lambda: (
                provider.off(machine, id_)
                if what is PowerAct.POWER_OFF
                else provider.reset(machine, id_)
            ),
        )
        return await await_outcome(what, asking)


def machine_of(job: Job, node: NodeObservation | None) -> ProviderMachine:
    """Return the machine as the Node says now, or as it was recorded before the first request."""
    noted = machine_of_record(job)
    provider_id = node.provider_id if node is not None else ""
    annotations = node.annotations if node is not None else {}
    return ProviderMachine(provider_id or noted, job.spec.node_name, annotations)


async def await_outcome(what: StepAct, asking: Awaitable[None]) -> JobActResult:
    """Await the request and return its outcome."""
    try:
        await asking
    except ActRefused as refused:
        return to_refused_result(what, refused)
    except ProviderError as error:
        outcome, after = outcome_of(error)
        log.warning(
            "a provider did not do what it was asked for",
            extra={"act": str(what), "outcome": str(outcome), "error": str(error)},
        )
        return JobActResult(what, outcome=outcome, error=sentence(error), after=after)
    return JobActResult(what, outcome=RequestOutcome.TAKEN)


def outcome_of(error: ProviderError) -> tuple[RequestOutcome, timedelta | None]:
    match error:
        case Unreachable():
            return RequestOutcome.UNCLEAR, None
        case Throttled():
            return RequestOutcome.LATER, error.after
        case Busy():
            return RequestOutcome.LATER, None
        case NoSuchMachine():
            return RequestOutcome.GONE, None
        case _:
            return RequestOutcome.REFUSED, None


def sentence(error: ProviderError) -> str:
    """Return the provider's error and what a person can do about it."""
    match error:
        case Denied():
            return f"{error}; give its credentials the right, or renew them"
        case NoSuchMachine():
            return f"{error}; the provider does not know this machine"
        case Unsupported():
            return f"{error}; this provider cannot do it: name another way in `via`"
        case _:
            return str(error)
