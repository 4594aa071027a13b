"""Observations of a node's machine and its replacement, and outcomes of requests. Pure."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from kubenode.providers.port import Can, Power


class RequestOutcome(StrEnum):
    """Outcome of a request to a provider, node group or receiver.

    TAKEN: it will be done; whether it was done must be observed
    UNCLEAR: no answer: it may have been taken
    LATER: not taken now; it can be repeated later
    REFUSED: not taken, and repeating does not help: a person has to act
    GONE: there is no such machine
    PREVENTED: no request was sent, because the last check prevented the act
    """

    TAKEN = "Taken"
    UNCLEAR = "Unclear"
    LATER = "Later"
    REFUSED = "Refused"
    GONE = "Gone"
    PREVENTED = "Held"


NOTHING = Can()


@dataclass(frozen=True, slots=True)
class PowerObservation:
    """The provider's reading of the machine.

    provider: its name, "" if no provider has this machine
    power: None: there is no reading, and `why` has the reason
    outcome: outcome of the read
    after: how long to wait before asking again, if the provider says
    """

    provider: str = ""
    can: Can = NOTHING
    power: Power | None = None
    outcome: RequestOutcome = RequestOutcome.TAKEN
    why: str = ""
    after: timedelta | None = None

    @property
    def dark(self) -> bool:
        """Whether nothing of the machine is proven to run, as fencing and forced
        deletion require.
        """
        return self.power is not None and self.power.state.dark

    @property
    def description(self) -> str:
        """The reading for people: our state and the provider's word."""
        if self.power is None:
            return self.why
        return f"{self.power.state} ({self.power.raw})" if self.power.raw else self.power.state


@dataclass(frozen=True, slots=True)
class ReplacementObservation:
    """Who can replace the node's machine and, after the request, its progress.

    path, target: the first method that applies and the object or machine to give up; "" for none
    group: group of the machine; its replacement belongs to it too
    gone: the system that created the old machine reports that it is gone
    new: name of the Node that replaced it and is Ready; "" for none
    candidates: all Nodes that may be the replacement, of which one is claimed
    newest: youngest members of the group before the request (ways.newest_of)
    renewed: the same machine was set up again: its Node has booted since, and is Ready
    enough: no other machine will come: the group does not need one now
    why: why no method applies, or what is waited for
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
