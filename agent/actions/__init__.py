"""The fixed catalogue: every repair this agent can do. Nothing else can be asked of it.

An action looks before it acts, acts once, and can say after an interruption whether its result
stands. What it saw before is journaled with the intent, so that a later process can compare.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from agent.actions.units import UnitAction
from agent.host import Host, UnitVerb
from agent.outcome import Outcome
from agent.request import Request
from kubenode.runtime.clock import Clock

Before = Mapping[str, str]
"""What was seen before the act, as text, small; each action has its own keys."""

SETTLE_SECONDS = 1.0
"""How long a unit must stay up after its start to count as started."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What an action works with."""

    host: Host
    clock: Clock
    settle: float = SETTLE_SECONDS


class Action(Protocol):
    def unfit(self, request: Request) -> str:
        """Why its parameters make no sense; "" if they do."""
        ...

    async def look(self, request: Request, bench: Bench) -> Before:
        """Read what `prove` will compare with. Raises HostError: then nothing is done."""
        ...

    async def act(self, request: Request, before: Before, limit: float, bench: Bench) -> Outcome:
        """Do it, within `limit` seconds, and see that it worked. Raises HostError."""
        ...

    async def prove(self, before: Before, limit: float, bench: Bench) -> Outcome | None:
        """After an interruption on the same boot: the outcome if it can be seen, else None.

        Never acts. Raises HostError.
        """
        ...


CATALOGUE: Mapping[str, Action] = {verb.value: UnitAction(verb) for verb in UnitVerb}
"""By the name that the API gives it; other names of the API's catalogue are refused."""
