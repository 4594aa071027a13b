"""Checks whether a component is healthy: its units stay up, and its own checks pass.

A check counts as passed after `successes` good answers in a row, and as failed after `failures` bad
ones. A component without checks is judged by its units alone. Each unit must be active in three
checks with the same invocation, so that a crash loop does not count as healthy. The description of
an unhealthy component ends with what its unit logged last.
"""

from typing import Protocol

from agent.components.model import ComponentHealth, StoredComponent
from agent.components.ports import ComponentPorts
from agent.components.unitlog import read_unit_log
from agent.components.units import running
from agent.host import HostError
from kubenode.runtime.components.wire import UnitState, WireHealthCheck

STEADY_SECONDS = 30.0
"""Minimum interval between two checks of what is healthy."""
UNIT_SECONDS, UNIT_CHECKS = 2.0, 3
OUTPUT = 200
LOG_SECONDS = 60.0
"""Interval between two reads of an unhealthy component's log: each one may change its status."""


class Reach(Protocol):
    """Network access of checks on this host."""

    async def http(self, url: str, limit: float) -> str:
        """Return "" for a 2xx response within `limit` seconds, else what happened instead."""
        ...

    async def tcp(self, address: str, limit: float) -> str:
        """Return "" if HOST:PORT accepts a connection within `limit` seconds, else what
        happened.
        """
        ...


class Streak:
    """State of one check: consecutive good or bad answers, and when it runs next."""

    def __init__(self, check: WireHealthCheck) -> None:
        self.check = check
        self.health = ComponentHealth.UNKNOWN
        self.due = float("-inf")
        self.problem = ""
        self.invocation = ""
        self._good = self._bad = 0

    def answered(self, problem: str, now: float) -> None:
        """Record an answer at monotonic time `now`. problem: what is wrong; "" for a good
        answer.
        """
        self.problem = problem
        self._good, self._bad = (0, self._bad + 1) if problem else (self._good + 1, 0)
        if self._good >= self.check.successes:
            self.health = ComponentHealth.GOOD
        elif self._bad >= self.check.failures:
            self.health = ComponentHealth.BAD
        interval = self.check.interval_seconds
        steady = self.health is ComponentHealth.GOOD and not problem
        self.due = now + (max(interval, STEADY_SECONDS) if steady else interval)


class Checker:
    """The checks of one component as it was applied."""

    def __init__(self, component: StoredComponent, ports: ComponentPorts, reach: Reach) -> None:
        self.component = component
        self._ports, self._reach = ports, reach
        units = component.form.units if component.form is not None else ()
        active = [unit.name for unit in units if unit.state is UnitState.ACTIVE]
        self._unit_name = active[0] if active else ""
        self._log, self._log_due = "", float("-inf")
        own = (
            component.spec.health
            if component.form is not None and component.desired_state == "Running"
            else []
        )
        checks = [*map(_of_unit, active), *(c for c in own if c.type != "nodeCondition")]
        self._streaks = [Streak(check) for check in checks]

    @property
    def due(self) -> float:
        """Return the monotonic time in seconds of the next check; inf if there is none."""
        return min((streak.due for streak in self._streaks), default=float("inf"))

    @property
    def health(self) -> ComponentHealth:
        """Return the worst health of all checks; GOOD if there are none."""
        all_ = {streak.health for streak in self._streaks}
        if ComponentHealth.BAD in all_:
            return ComponentHealth.BAD
        return ComponentHealth.UNKNOWN if ComponentHealth.UNKNOWN in all_ else ComponentHealth.GOOD

    @property
    def problem(self) -> str:
        """Describe what is wrong in one sentence; "" if nothing is."""
        wrong = [f"check {s.check.name}: {s.problem}" for s in self._streaks if s.problem]
        return "; ".join([*wrong, self._log] if wrong and self._log else wrong)

    async def run_due(self, now: float) -> None:
        """Run the checks that are due."""
        for streak in self._streaks:
            if streak.due <= now:
                streak.answered(await self._ask(streak), now)
        await self._read_log(now)

    async def _read_log(self, now: float) -> None:
        if self.health is not ComponentHealth.BAD:
            self._log, self._log_due = "", float("-inf")
        elif self._unit_name and now >= self._log_due:
            text = await read_unit_log(self._ports.runner, self._unit_name)
            self._log = f"{self._unit_name} logged: {text}" if text else ""
            self._log_due = now + LOG_SECONDS

    async def _ask(self, streak: Streak) -> str:
        check = streak.check
        try:
            if check.unit is not None:
                return await self._unit(check.unit, streak)
            if check.exec is not None:
                ran = await self._ports.runner.run(check.exec, check.timeout_seconds)
                problem = f"{check.exec[0]} ended with {ran.code}: {ran.output.strip()[-OUTPUT:]}"
                return problem if ran.code else ""
            if check.http is not None:
                return await self._reach.http(check.http, check.timeout_seconds)
            if check.tcp is not None:
                return await self._reach.tcp(check.tcp, check.timeout_seconds)
        except TimeoutError:
            return f"no end within {check.timeout}"
        except HostError as error:
            return str(error)
        return f"type {check.type} is not known to this agent: update it"

    async def _unit(self, name: str, streak: Streak) -> str:
        unit_state = await self._ports.units.read_unit(name)
        again = streak.invocation and unit_state.invocation != streak.invocation
        streak.invocation = unit_state.invocation
        if not running(unit_state) or unit_state.active == "activating":
            return f"{name} is {unit_state.active}"
        return (
            f"{name} was started again"
            if again and streak.health is ComponentHealth.UNKNOWN
            else ""
        )


def _of_unit(name: str) -> WireHealthCheck:
    return WireHealthCheck(
        f"unit {name}",
        "unit",
        unit=name,
        interval=f"{UNIT_SECONDS:g}s",
        successes=UNIT_CHECKS,
        failures=UNIT_CHECKS,
    )
