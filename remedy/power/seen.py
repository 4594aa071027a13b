"""What is seen of a node's machine and of its replacement, and what came of asking. Pure."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from kubenode.providers.port import Can, Power


class RequestOutcome(StrEnum):
    """What came of asking a provider, or whoever makes the nodes, for something.

    TAKEN    it will be done; that it was done is another matter
    UNCLEAR  no answer: it may have been taken
    LATER    not taken now, and it can be asked again later
    REFUSED  not taken, and asking again does not help: a person has to act
    GONE     there is no such machine
    HELD     nobody was asked: the last look before the act was against it
    """

    TAKEN = "Taken"
    UNCLEAR = "Unclear"
    LATER = "Later"
    REFUSED = "Refused"
    GONE = "Gone"
    HELD = "Held"


NOTHING = Can()


@dataclass(frozen=True, slots=True)
class PowerSeen:
    """The provider's word on the machine.

    provider  its name, "" if no provider has this machine
    power     None: there is no reading, and `why` says so
    outcome   what came of asking for it
    after     when to ask again, if the provider says
    """

    provider: str = ""
    can: Can = NOTHING
    power: Power | None = None
    outcome: RequestOutcome = RequestOutcome.TAKEN
    why: str = ""
    after: timedelta | None = None

    @property
    def dark(self) -> bool:
        """Proof that nothing of the machine runs: what fencing and force need."""
        return self.power is not None and self.power.state.dark

    @property
    def told(self) -> str:
        """The reading for people: our word and the provider's."""
        if self.power is None:
            return self.why
        return f"{self.power.state} ({self.power.raw})" if self.power.raw else self.power.state


@dataclass(frozen=True, slots=True)
class ReplaceSeen:
    """Who can replace the node's machine, and, once it was asked, how far that is.

    path, target  the first way that applies and the object or machine that is given up; "" for none
    group         what the machine is one of: its replacement is one of it too
    gone          the old machine is gone, as whoever made it says
    new           name of the Node that came in its place and is Ready
    candidates    all Nodes that may be it, of which one is claimed
    newest        youngest members of the group before anything is asked (ways.newest_of)
    renewed       the machine was made anew as itself: its Node has booted since, and is Ready
    enough        nobody will make another: the group does not want one now
    why           why no way applies, or what is waited for
    """

    path: str = ""
    target: str = ""
    group: str = ""
    gone: bool = False
    new: str = ""
    renewed: bool = False
    enough: bool = False
    candidates: tuple[str, ...] = ()
    newest: str = ""
    outcome: RequestOutcome = RequestOutcome.TAKEN
    why: str = ""
    after: timedelta | None = None
