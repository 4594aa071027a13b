"""Caches the state of the host for each component, until it may have changed.

An observation reads packages, files and units. It becomes stale when a watched path changes, a
check fails, an act ends, or after ten minutes.
"""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Literal

from agent.components.drift.compare import Drifted, HostState, drifted
from agent.components.drift.observe import paths, read_host_state
from agent.components.health import Checker, Reach
from agent.components.model import ComponentHealth, ComponentRecord, StoredComponent
from agent.components.ports import ComponentPorts
from agent.host import HostError
from kubenode.runtime.clock import Clock

OLDEST_SECONDS = 600.0
FAR = float("inf")
FAILED_SECONDS = 30.0
"""Delay before the next read of a host state that could not be read."""

Role = Literal["applied", "target"]


class _CachedState:
    def __init__(
        self, component: StoredComponent, host_state: HostState | None, until: float
    ) -> None:
        self.component, self.host_state, self.until = component, host_state, until


class HostObservations:
    def __init__(self, ports: ComponentPorts, reach: Reach, clock: Clock) -> None:
        self._ports, self._reach, self._clock = ports, reach, clock
        self._cached_states: dict[tuple[str, Role], _CachedState] = {}
        self._checkers: dict[str, Checker] = {}
        self._since: dict[tuple[str, str, str], datetime] = {}
        self._begun: dict[str, float] = {}

    # -- presence ---------------------------------------------------------------------------------

    async def fetch_host_state(
        self, name: str, role: Role, component: StoredComponent
    ) -> HostState | None:
        """Return the state of what `component` owns on the host; None if the host cannot be
        read.
        """
        form = component.form
        if form is None:
            return None
        known = self._cached_states.get((name, role))
        now = self._clock.monotonic()
        if known is not None and known.component == component and now < known.until:
            return known.host_state
        try:
            host_state, until = await read_host_state(form, self._ports), now + OLDEST_SECONDS
        except HostError:
            host_state, until = None, now + FAILED_SECONDS
        self._cached_states[name, role] = _CachedState(component, host_state, until)
        return host_state

    def known(self, name: str) -> HostState | None:
        """Return the host state that was read last, however old; None if there is none."""
        cached = self._cached_states.get((name, "applied")) or self._cached_states.get(
            (name, "target")
        )
        return cached.host_state if cached is not None else None

    def stale(self, name: str) -> None:
        for key in [key for key in self._cached_states if key[0] == name]:
            self._cached_states[key].until = float("-inf")

    def news(self, changed: Collection[str], records: Iterable[ComponentRecord]) -> None:
        """Mark the records that own one of the changed paths as stale; all records for an empty
        set.
        """
        for record in records:
            form = record.applied.form if record.applied is not None else None
            if not changed or (form is not None and paths(form) & set(changed)):
                self.stale(record.name)

    def follow(self, records: Iterable[ComponentRecord]) -> None:
        forms = (record.applied.form for record in records if record.applied is not None)
        self._ports.watch.follow({path for form in forms if form for path in paths(form)})

    def drift(
        self, name: str, component: StoredComponent, host_state: HostState, now: datetime
    ) -> list[Drifted]:
        """Return the drift of a component, and remember since when each difference exists."""
        listed = drifted(name, component.form, host_state) if component.form is not None else []
        for difference in listed:
            self._since.setdefault((name, difference.kind.value, difference.path), now)
        there = {(name, difference.kind.value, difference.path) for difference in listed}
        self._since = {k: at for k, at in self._since.items() if k[0] != name or k in there}
        return listed

    def since(self, name: str) -> dict[tuple[str, str], datetime]:
        return {(kind, path): at for (n, kind, path), at in self._since.items() if n == name}

    # -- health -----------------------------------------------------------------------------------

    def checker(self, name: str, component: StoredComponent) -> Checker:
        """Return the component's checker; a new one if the component changed."""
        known = self._checkers.get(name)
        if known is None or known.component != component:
            known = self._checkers[name] = Checker(component, self._ports, self._reach)
            self._begun[name] = self._clock.monotonic()
        return known

    def unchecked(self, name: str) -> None:
        """Drop the checker, so that the component's health is checked from the start later."""
        self._checkers.pop(name, None)

    def checked_for(self, name: str) -> float:
        """Return the seconds since the checks of the component began."""
        return self._clock.monotonic() - self._begun.get(name, self._clock.monotonic())

    async def check(self, name: str) -> None:
        """Run the checks that are due. A new problem makes the cached host state stale."""
        known = self._checkers.get(name)
        if known is None or known.due > self._clock.monotonic():
            return
        before = (known.problem, known.health)
        await known.run_due(self._clock.monotonic())
        if known.problem and (known.problem, known.health) != before:
            self.stale(name)

    def health(self, name: str) -> tuple[ComponentHealth, str]:
        known = self._checkers.get(name)
        return (known.health, known.problem) if known is not None else (ComponentHealth.UNKNOWN, "")

    def due(self) -> float:
        """Return when something is due next, in seconds of the monotonic clock.

        A stale host state is not counted: it is read when it is needed.
        """
        now = self._clock.monotonic()
        ahead = [state.until for state in self._cached_states.values() if state.until > now]
        return min([checker.due for checker in self._checkers.values()] + ahead, default=FAR)

    def forget(self, name: str) -> None:
        self._checkers.pop(name, None)
        self._begun.pop(name, None)
        self._cached_states = {
            key: state for key, state in self._cached_states.items() if key[0] != name
        }
        self._since = {key: at for key, at in self._since.items() if key[0] != name}
