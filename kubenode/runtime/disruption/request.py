"""What is asked of the guard, and how it says no."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

UNNEEDED = "unneeded"
"""In place of a permit's name, where there is no Node that Kube Defender could count."""


class DisruptiveAct(StrEnum):
    DELETE = "Delete"
    POWER_OFF = "PowerOff"
    RESET = "Reset"
    REPLACE = "Replace"
    REBOOT = "Reboot"


class RefusalReason(StrEnum):
    FROZEN = "Frozen"
    EXPIRED = "Expired"
    NO_INTENT = "NoIntent"
    NO_PERMIT = "NoPermit"
    TARGET_CHANGED = "TargetChanged"
    BOOT_CHANGED = "BootChanged"
    UNREADABLE = "Unreadable"


WITHOUT_PERMIT = f"{RefusalReason.NO_PERMIT}: "
"""How an agent's answer begins when it found no valid permit and did nothing."""


class ActRefused(Exception):
    """The act was not done. `message` is a sentence without a ticking value."""

    def __init__(self, reason: RefusalReason, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason, self.message = reason, message


@dataclass(frozen=True, slots=True)
class ActRequest:
    """One act on one machine or host.

    target      as the executor knows it: a providerID, the name of a Machine or host
    node        name of its Node; "" where it has none
    who         on whose behalf: `Kind name`
    request     ID under which the intent is stored, and that travels to the executor
    permit      name of the Permit; UNNEEDED where `node` is ""
    holder_uid  UID of the permit's holder; "" is not compared
    class_      least class of the permit: Host, Pods or Node; "" is not compared
    expires     after this instant it is not done; None: the permit alone ends it
    boot_id     the host's when it was decided; "" where the host is not concerned, or cannot answer
    evidence    why, as a sentence
    """

    act: DisruptiveAct
    target: str
    node: str
    who: str
    request: str
    permit: str
    holder_uid: str = ""
    class_: str = ""
    expires: datetime | None = None
    boot_id: str = ""
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class LiveTarget:
    """What the live read of the target found.

    changed  why it is not what was decided on, "" if it is
    boot_id  that it runs, "" if nobody can say
    """

    changed: str = ""
    boot_id: str = ""
