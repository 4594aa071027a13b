"""Gathers the input of one component's next step: Machine, host, checks, dependencies. Never
acts.
"""

from collections.abc import Mapping
from datetime import datetime

from msgspec.structs import replace

from agent.components import turns
from agent.components.claims import conflicts
from agent.components.differences import FormDifference, Lapse, lapse, permitted, to_target
from agent.components.drift.compare import Drifted
from agent.components.model import (
    MOVING,
    ComponentApplyState,
    ComponentObservation,
    ComponentRecord,
    MoveResult,
    StoredComponent,
)
from agent.components.observations import HostObservations
from agent.components.step import LIVE
from kubenode.runtime.components.wire import Assigned, WireChangeClass, WireMachinePermit

UNCHECKED = MOVING | {ComponentApplyState.FAILED, ComponentApplyState.ABSENT}
"""States in which no complete component is on the host, so that there is nothing to check."""
UNKNOWN_HOST = ("HostUnknown", "the host does not tell what is installed")


class DesiredComponents:
    """The desired state: what the Machine assigns, as far as it could be read.

    assigned: assignments by name; None: the Machine was not read yet
    components: the component on this host for each assignment
    problems: (reason, message) of components that cannot be applied
    permit: the Machine's permit for changes; None: there is none
    observe: the Machine allows no changes
    leaving: the Machine is being deleted
    """

    def __init__(
        self,
        assigned: Mapping[str, Assigned] | None,
        components: Mapping[str, StoredComponent],
        problems: Mapping[str, tuple[str, str]],
        permit: WireMachinePermit | None,
        *,
        observe: bool,
        leaving: bool = False,
    ) -> None:
        self.assigned, self.components = assigned, components
        self.permit, self.observe, self.leaving = permit, observe, leaving
        self.order, stuck = turns.in_order(components)
        self.problems = dict(problems)
        shared = conflicts(
            {n: form for n, component in components.items() if (form := component.form) is not None}
        )
        for name, component in components.items():
            if name in stuck:
                self.problems[name] = ("DependencyCycle", stuck[name])
            elif lost := turns.missing(component, assigned or {}):
                self.problems[name] = ("MissingDependency", lost)
            elif name in shared:
                self.problems[name] = ("FileConflict", shared[name])


NOTHING_YET = DesiredComponents(None, {}, {}, None, observe=False)


class Eyes:
    def __init__(self, observations: HostObservations) -> None:
        self._observed = observations
        self.lapses: dict[str, Lapse] = {}
        self.drift: dict[str, list[Drifted]] = {}

    async def see(
        self,
        record: ComponentRecord,
        records: Mapping[str, ComponentRecord],
        wanted: DesiredComponents,
        done: MoveResult | None,
        boot_id: str,
        now: datetime,
    ) -> ComponentObservation:
        name = record.name
        observation = ComponentObservation(
            now=now,
            boot_id=boot_id,
            known=wanted.assigned is not None,
            assigned=(wanted.assigned or {}).get(name),
            target=wanted.components.get(name),
            problem=wanted.problems.get(name, ("", "")),
            observe=wanted.observe,
            leaving=wanted.leaving,
            done=done,
        )
        if record.state in UNCHECKED:
            self._observed.unchecked(name)
        if record.state in MOVING:
            go_on = permitted(name, record.how, wanted.permit, now, begun=True)
            return replace(observation, permitted=go_on)
        if record.state is ComponentApplyState.VERIFYING:
            return await self._verified(record, observation)
        if record.applied is not None and record.state not in UNCHECKED:
            self._observed.checker(name, record.applied)
            await self._observed.check(name)
        fallen = await self._fallen(record, now)
        observation = replace(observation, off=fallen.off, differs=fallen.differs)
        if record.state in LIVE:
            return await self._at_rest(record, records, wanted, observation, fallen)
        return await self._before(record, records, wanted, observation)

    async def _verified(
        self, record: ComponentRecord, observation: ComponentObservation
    ) -> ComponentObservation:
        if record.target is None:
            return observation
        checker = self._observed.checker(record.name, record.target)
        await self._observed.check(record.name)
        overdue = self._observed.checked_for(record.name) >= record.target.spec.health_seconds
        return replace(observation, health=checker.health, overdue=overdue, differs=checker.problem)

    async def _fallen(self, record: ComponentRecord, now: datetime) -> Lapse:
        """Compare the host with what is applied; return what to do about the drift."""
        applied = record.applied
        if applied is None or record.state in UNCHECKED:
            self.drift.pop(record.name, None)
            return Lapse()
        host_state = await self._observed.fetch_host_state(record.name, "applied", applied)
        if host_state is None:
            return Lapse()
        listed = self._observed.drift(record.name, applied, host_state, now)
        fallen = lapse(listed, record.fights, now)
        self.drift[record.name], self.lapses[record.name] = listed, fallen
        return fallen

    async def _at_rest(
        self,
        record: ComponentRecord,
        records: Mapping[str, ComponentRecord],
        wanted: DesiredComponents,
        observation: ComponentObservation,
        fallen: Lapse,
    ) -> ComponentObservation:
        health, problem = self._observed.health(record.name)
        how = fallen.how
        return replace(
            observation,
            how=how,
            permitted=permitted(record.name, how, wanted.permit, observation.now),
            waits=self._waits(record.name, how, records, wanted),
            health=health,
            differs=fallen.differs or problem,
        )

    async def _before(
        self,
        record: ComponentRecord,
        records: Mapping[str, ComponentRecord],
        wanted: DesiredComponents,
        observation: ComponentObservation,
    ) -> ComponentObservation:
        target = observation.target
        if target is None or observation.problem[0] or record.state in UNCHECKED:
            return observation
        difference, there = await self._difference(record, target)
        if difference is None:
            return replace(observation, problem=UNKNOWN_HOST)
        return replace(
            observation,
            there=there,
            same=difference.same,
            how=difference.how,
            permitted=permitted(record.name, difference.how, wanted.permit, observation.now),
            waits=self._waits(record.name, difference.how, records, wanted),
        )

    async def _difference(
        self, record: ComponentRecord, target: StoredComponent
    ) -> tuple[FormDifference | None, bool]:
        """Return the difference between host and target, and whether anything of it is on the
        host.
        """
        expected = target if target.form is not None else replace(target, desired_state="Running")
        host_state = await self._observed.fetch_host_state(record.name, "target", expected)
        if host_state is None:
            return None, False
        difference = to_target(record.name, record.applied, target, host_state)
        return difference, host_state.installed.version != ""

    def _waits(
        self,
        name: str,
        how: WireChangeClass,
        records: Mapping[str, ComponentRecord],
        wanted: DesiredComponents,
    ) -> str:
        if name not in wanted.components:
            return "the Machine was not read yet"
        try:
            return turns.waits(name, how, wanted.components, wanted.assigned or {}, records)
        except ValueError as error:
            return str(error)

    def forget(self, name: str) -> None:
        self.lapses.pop(name, None)
        self.drift.pop(name, None)
        self._observed.forget(name)
