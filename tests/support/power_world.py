"""The machine under the node of a FakeWorld: it takes its time, and refuses when told to.

What must never happen is asserted where it would happen: a second reset, a boot behind a fence, a
request that nobody wrote down.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kubenode.providers.port import Can, Power, PowerState
from remedy.job.model import Job, NodeObservation
from remedy.power.observation import PowerObservation, ReplacementObservation, RequestOutcome

ON, OFF, GONE = PowerState.ON, PowerState.OFF, PowerState.GONE
ALL = Can(off=True, reset=True, replace=True)
Refusal = tuple[RequestOutcome, str]


@dataclass
class FakeHost:
    """provider   its name, "" if no provider has the machine
    can        what it can do with it
    off_after  how long until an `off` is proven
    up_after   how long a boot takes; None: it never comes back
    refuses    answers to the next requests, in order, before they are taken
    unread     answers to the next readings of its power, in order
    path       who can replace it, "" if nobody can
    new_after  how long until the replacement is Ready; None: it never is
    renews     a replaced machine is made anew as itself
    """

    provider: str = "fake"
    can: Can = ALL
    state: PowerState = ON
    off_after: timedelta = timedelta(seconds=20)
    up_after: timedelta | None = timedelta(seconds=60)
    refuses: list[Refusal] = field(default_factory=list)
    unread: list[Refusal] = field(default_factory=list)
    path: str = "InstanceGroup"
    new_after: timedelta | None = timedelta(seconds=120)
    renews: bool = False
    booted: int = 0
    asked: list[tuple[str, str]] = field(default_factory=list)
    """What was asked for and taken, with its request ID."""
    replaced_at: datetime | None = None
    new: str = ""
    _dark_at: datetime | None = None
    _up_at: datetime | None = None

    def ask(self, word: str, request: str, now: datetime) -> Refusal:
        """`off`, `on`, `reset` or `replace`."""
        if self.refuses:
            outcome, why = self.refuses.pop(0)
            if outcome not in (RequestOutcome.UNCLEAR, RequestOutcome.TAKEN):
                return outcome, why
        else:
            outcome, why = RequestOutcome.TAKEN, ""
        assert request, "nobody wrote down that it is asked for"
        self.asked.append((word, request))
        if word in ("reset", "replace") and not self.can.repeatable:
            assert self.asked.count((word, request)) == 1, f"{word} {request} twice"
        getattr(self, f"_{word}")(now)
        return outcome, why

    def _off(self, now: datetime) -> None:
        if self.state not in (OFF, GONE, PowerState.STOPPING):
            self.state, self._dark_at, self._up_at = PowerState.STOPPING, now + self.off_after, None

    def _on(self, now: datetime) -> None:
        if self.state is OFF:
            self.state = ON
            self._boots(now)

    def _reset(self, now: datetime) -> None:
        assert self.state not in (OFF, GONE), "a reset of what is off"
        self._boots(now)

    def _boots(self, now: datetime) -> None:
        self._up_at = None if self.up_after is None else now + self.up_after

    def _replace(self, now: datetime) -> None:
        if self.renews:
            self._boots(now)
            return
        self.state, self.replaced_at = GONE, now

    def passes(self, now: datetime) -> bool:
        """Time goes on; whether the host has just booted."""
        if self._dark_at is not None and now >= self._dark_at:
            self.state, self._dark_at = OFF, None
        if self.replaced_at is not None and self.new_after is not None:
            self.new = "n1-new" if now >= self.replaced_at + self.new_after else ""
        if self._up_at is not None and now >= self._up_at:
            self._up_at, self.booted = None, self.booted + 1
            return True
        return False

    def power(self, now: datetime) -> PowerObservation:
        if not self.provider:
            return PowerObservation(
                outcome=RequestOutcome.REFUSED, why="no provider has this machine"
            )
        if self.unread:
            outcome, why = self.unread.pop(0)
            return PowerObservation(self.provider, self.can, outcome=outcome, why=why)
        return PowerObservation(
            self.provider, self.can, Power(self.state, str(self.state).lower(), now)
        )

    async def observe(self, job: Job, node: NodeObservation | None) -> ReplacementObservation:
        if not self.path:
            return ReplacementObservation(
                outcome=RequestOutcome.REFUSED, why="InstanceGroup: no group has it"
            )
        return ReplacementObservation(
            self.path,
            "fake:///n1",
            "pool-a",
            gone=self.replaced_at is not None,
            new=self.new,
            renewed=self.renews and self.booted > 0,
        )
