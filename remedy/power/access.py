"""The machine of a job's node through its provider: read its power, switch it.

A provider's error becomes an outcome with a sentence for people; nothing of it travels inwards.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

from kubenode.providers.errors import (
    Busy,
    Denied,
    NoSuchMachine,
    ProviderError,
    Throttled,
    Unreachable,
    Unsupported,
)
from kubenode.providers.port import Machine, Provider
from kubenode.providers.registry import Providers
from kubenode.runtime.clock import Clock
from kubenode.runtime.disruption.guard import never_frozen
from remedy.job.model import Act, Heard, Job, NodeSeen
from remedy.job.power_record import machine_of_record
from remedy.power.seen import Outcome, PowerSeen

log = logging.getLogger(__name__)

NOBODY = "no provider has this machine (spec.providerID {id!r}): configure the one that runs it"


FRESH = 1.0
"""Seconds for which a reading serves the rounds of one run: each looks at the whole world."""
PATIENT = 20.0
"""The same while pods are waited for, as long as the machine is not dark: many drains look often,
and only darkness changes what they do.
"""


class PowerAccess:
    """frozen  why nothing may be stopped or reset in this cluster now, "" if it may"""

    def __init__(
        self, providers: Providers, clock: Clock, frozen: Callable[[], str] = never_frozen
    ) -> None:
        self._providers, self._frozen = providers, frozen
        self._clock = clock
        self._read: dict[str, tuple[float, PowerSeen]] = {}
        """Until when each job's reading serves."""

    def of(self, job: Job, node: NodeSeen | None) -> tuple[Machine, Provider | None]:
        machine = machine_of(job, node)
        return machine, self._providers.of(machine)

    async def power(self, job: Job, node: NodeSeen | None) -> PowerSeen:
        machine, provider = self.of(job, node)
        if provider is None:
            why = NOBODY.format(id=machine.provider_id)
            return PowerSeen(outcome=Outcome.REFUSED, why=why)
        now = self._clock.monotonic()
        self._read = {name: kept for name, kept in self._read.items() if now < kept[0]}
        if job.name in self._read:
            return self._read[job.name][1]
        seen = await self._reading(machine, provider)
        drains = job.step is not None and job.step.migrate is not None
        serves = PATIENT if drains and not seen.dark else FRESH
        self._read[job.name] = (now + serves, seen)
        return seen

    async def _reading(self, machine: Machine, provider: Provider) -> PowerSeen:
        read = PowerSeen(provider=provider.name, can=provider.can)
        try:
            return replace(read, power=await provider.power(machine))
        except ProviderError as error:
            outcome, after = outcome_of(error)
            return replace(read, outcome=outcome, why=sentence(error), after=after)

    async def switch(self, job: Job, what: Act, node: NodeSeen | None) -> Heard:
        machine, provider = self.of(job, node)
        if provider is None:
            why = NOBODY.format(id=machine.provider_id)
            return Heard(what, outcome=Outcome.REFUSED, error=why)
        if what is not Act.POWER_ON and (why := self._frozen()):
            return Heard(what, outcome=Outcome.LATER, error=why)
        self._read.pop(job.name, None)
        ask = {Act.POWER_OFF: provider.off, Act.POWER_ON: provider.on, Act.RESET: provider.reset}
        return await heard(what, ask[what](machine, request_of(job)))


def machine_of(job: Job, node: NodeSeen | None) -> Machine:
    """As the Node says now, or as the record says that was written before anything was asked."""
    noted = machine_of_record(job)
    seen = node.provider_id if node is not None else ""
    annotations = node.annotations if node is not None else {}
    return Machine(seen or noted, job.spec.node_name, annotations)


def request_of(job: Job) -> str:
    """The same for the same request of the same job, in every process; no other has it."""
    record = job.record
    if record is None or job.close_reason is not None:
        return f"{job.uid}.undo"
    return f"{job.uid}.{record.request_id}"


async def heard(what: Act, asking: Awaitable[None]) -> Heard:
    try:
        await asking
    except ProviderError as error:
        outcome, after = outcome_of(error)
        log.warning(
            "a provider did not do what it was asked for",
            extra={"act": str(what), "outcome": str(outcome), "error": str(error)},
        )
        return Heard(what, outcome=outcome, error=sentence(error), after=after)
    return Heard(what, outcome=Outcome.TAKEN)


def outcome_of(error: ProviderError) -> tuple[Outcome, timedelta | None]:
    match error:
        case Unreachable():
            return Outcome.UNCLEAR, None
        case Throttled():
            return Outcome.LATER, error.after
        case Busy():
            return Outcome.LATER, None
        case NoSuchMachine():
            return Outcome.GONE, None
        case _:
            return Outcome.REFUSED, None


def sentence(error: ProviderError) -> str:
    """What it said, and what a person can do about it."""
    match error:
        case Denied():
            return f"{error}; give its credentials the right, or renew them"
        case NoSuchMachine():
            return f"{error}; the provider does not know this machine"
        case Unsupported():
            return f"{error}; this provider cannot do it: name another way in `via`"
        case _:
            return str(error)
