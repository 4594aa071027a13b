"""A machine of a fake cloud: its power switch, and how often it has booted."""

from dataclasses import dataclass, field

from kubenode.providers.port import PowerState


@dataclass(slots=True)
class FakeMachine:
    """What is asked comes about with `settle`; until then it is on its way."""

    state: PowerState = PowerState.ON
    boots: int = 0
    generation: int = 1
    """Counts how often it was made anew."""
    requests: set[str] = field(default_factory=set)
    """Request IDs that were seen, of clouds that know them."""
    _restarts: int = 0

    def at(self, state: PowerState) -> bool:
        return self.state is state

    def off(self) -> None:
        if self.state is not PowerState.OFF:
            self.state = PowerState.STOPPING

    def on(self) -> None:
        if self.state is not PowerState.ON:
            self.state = PowerState.STARTING

    def restart(self) -> None:
        self._restarts += 1

    def renew(self) -> None:
        self.generation += 1
        self.state = PowerState.STARTING

    def leave(self) -> None:
        self.state = PowerState.GONE

    def settle(self) -> None:
        if self.state is PowerState.STOPPING:
            self.state = PowerState.OFF
        elif self.state is PowerState.STARTING:
            self.state = PowerState.ON
            self.boots += 1
        if self.state is PowerState.ON:
            self.boots += self._restarts
        self._restarts = 0

    def once(self, request: str) -> bool:
        """Whether the request ID is new."""
        new = request not in self.requests
        self.requests.add(request)
        return new
