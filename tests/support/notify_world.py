"""Notices, and a receiver that does what it is told to."""

from dataclasses import dataclass, field
from typing import Any

from support.clock import T0

from kubenode.api.v1alpha1.noderemedier import Severity
from remedy.notify.message import NotDelivered, RenderedNotice
from remedy.notify.notice import JobNotice


def a_notice(number: int = 1, **changes: Any) -> JobNotice:
    given = {
        "id": f"uid-{number}.NeedsHuman.0.0",
        "kind": "NeedsHuman",
        "at": T0,
        "severity": Severity.CRITICAL,
        "job": f"n{number}-0123456789",
        "node": f"n{number}",
        "rule": "kernel-deadlock",
        "fault_class": "kernel_deadlock",
        "phase": "NeedsHuman",
        "rung": "reboot",
        "happened": "not proven healthy within 15m; no rung is left",
        "commands": (f"kubenode explain job n{number}-0123456789",),
    }
    return JobNotice(**{**given, **changes})


@dataclass
class FakeSender:
    """no  what it says instead of taking a message, one for each try; then it takes all"""

    no: list[NotDelivered] = field(default_factory=list)
    tries: list[RenderedNotice] = field(default_factory=list)
    taken: list[RenderedNotice] = field(default_factory=list)

    async def send(self, message: RenderedNotice) -> None:
        self.tries.append(message)
        if self.no:
            raise self.no.pop(0)
        self.taken.append(message)

    async def close(self) -> None: ...

    @property
    def told(self) -> list[str]:
        return [message.notice.happened for message in self.taken]
