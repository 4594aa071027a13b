"""Requests to the guard, and its refusals."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

UNNEEDED = "unneeded"
"""Takes the place of a permit's name if there is no Node that Kube Defender could count."""


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
"""Prefix of an agent's answer if it had no valid permit and did nothing."""


class ActRefused(Exception):
    """The act was not done. `message` is a sentence without a ticking value."""

    def __init__(self, reason: RefusalReason, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason, self.message = reason, message


@dataclass(frozen=True, slots=True)
class ActRequest:
    """One act on one machine or host.

    target: as the executor names it: a providerID, the name of a Machine or host
    node: name of its Node, "" without one
    who: on whose behalf, as `Kind name`
    request: ID under which the intent is stored, and that is passed to the executor
    permit: name of the Permit; UNNEEDED if `node` is ""
    holder_uid: UID of the permit's holder; "" is not compared
    class_: least class of the permit: Host, Pods or Node; "" is not compared
    expires: instant after which the act is not done; None leaves it to the permit
    boot_id: of the host at the decision; "" if no host is concerned, or it cannot answer
    evidence: the reason, as a sentence
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
    """The target as it was read live.

    changed: how it differs from what was decided on, "" if it does not
    boot_id: the present one, "" if unknown
    """

    changed: str = ""
    boot_id: str = ""
