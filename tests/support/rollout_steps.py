"""The operator of a rollout, killed after every step of it that shows in the API.

What is told apart here is written by the operator alone: each sight that was not there before is a
step that it has just taken, and it dies of it once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from support.rollout_hosts import Rollouts, assigned


class Sight(NamedTuple):
    """What a look at the API shows of a rollout.

    phase     of the set
    later     whether the first batch is over; from then on phases alone are told apart
    staged    whether a Machine is told to download the wanted version ahead
    begun     likewise to have it
    allowed   whether a Machine has a permit
    cordoned  whether a node is cordoned
    """

    phase: str
    later: bool
    staged: bool = False
    begun: bool = False
    allowed: bool = False
    cordoned: bool = False


@dataclass
class Steps:
    """wanted  the MachineComponent that the set rolls out"""

    fleet: Rollouts
    set: str
    wanted: str
    seen: list[Sight] = field(default_factory=list)

    def until(self, holds: Callable[[], Any], what: str) -> Any:
        """Each operator has the whole patience for its next step."""
        killed = object()
        found: Any = killed
        while found is killed:
            found = self.fleet.until(lambda: killed if self._kill() else holds(), what)
        return found

    def _kill(self) -> bool:
        """Whether there was something new to see, of which the operator died."""
        now = self._sight()
        if now in self.seen:
            return False
        self.seen.append(now)
        self.fleet.kill_operator(str(now))
        return True

    def _sight(self) -> Sight:
        status = self.fleet.set(self.set).get("status", {})
        phase, batch = status.get("phase", ""), status.get("batch") or {}
        if batch.get("index", 0) > 1:
            return Sight(phase, later=True)
        machines = self.fleet.machines()
        listed = [c for m in machines.values() for c in m["spec"].get("components", [])]
        ours = [c for c in listed if c["component"] == self.wanted]
        return Sight(
            phase,
            later=False,
            staged=any(c.get("desiredState") == "Staged" for c in ours),
            begun=any(assigned(m, self.set) == self.wanted for m in machines.values()),
            allowed=any(m["spec"].get("permit") for m in machines.values()),
            cordoned=not all(self.fleet.schedulable(name) for name in self.fleet.hosts),
        )
