"""The moments of an incident as sentences, from its events. Pure."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import StrEnum

import msgspec

from kubenode.runtime.stream.model import (
    HoldStarted,
    JobClosed,
    JobDecided,
    JobOpened,
    PermitGranted,
    PermitRefused,
    PermitReleased,
    StepEnded,
    StepStarted,
    StreamData,
)


class MomentKind(StrEnum):
    """What happened at a moment."""

    SIGNAL = "Signal"
    OPENED = "Opened"
    STEP = "Step"
    HOLD = "Hold"
    REFUSED = "Refused"
    DECIDED = "Decided"
    PERMIT = "Permit"
    VERIFIED = "Verified"
    CLOSED = "Closed"


class Moment(msgspec.Struct, frozen=True):
    at: datetime
    kind: MomentKind
    text: str


def moments_of(events: Iterable[tuple[datetime, StreamData]]) -> list[Moment]:
    """Return the moments in the order of time. Those of the same time keep their order."""
    ordered = list(events)
    opened = (data for _, data in ordered if isinstance(data, JobOpened))
    rungs = next((data.rungs for data in opened), [])
    moments = [moment for at, data in ordered for moment in _moments(at, data, rungs)]
    return sorted(moments, key=lambda moment: moment.at)


def _moments(at: datetime, data: StreamData, rungs: list[str]) -> Iterator[Moment]:
    match data:
        case JobOpened():
            yield Moment(data.first_true, MomentKind.SIGNAL, _signal(data))
            yield Moment(at, MomentKind.OPENED, _opened(data))
        case StepEnded():
            took = f" after {_seconds(data.started_at, at)}" if data.started_at else ""
            yield Moment(at, MomentKind.STEP, f"{_step(data, rungs)}: {data.state}{took}")
        case StepStarted():
            yield Moment(at, MomentKind.STEP, f"{_step(data, rungs)} begins")
        case PermitRefused():
            yield Moment(at, MomentKind.REFUSED, f"Kube Defender refuses: {_reason(data)}")
        case HoldStarted():
            yield Moment(at, MomentKind.HOLD, f"The job waits: {_reason(data)}")
        case JobDecided():
            yield Moment(at, MomentKind.DECIDED, _decision(data))
        case PermitGranted():
            text = f"Permit {data.permit} of class {data.disruption_class} is granted"
            yield Moment(at, MomentKind.PERMIT, text)
        case PermitReleased():
            yield Moment(at, MomentKind.PERMIT, f"Permit {data.permit}: {data.state}")
        case JobClosed():
            if data.verified is not None:
                yield Moment(data.verified, MomentKind.VERIFIED, "The fault is proved to be gone")
            yield Moment(at, MomentKind.CLOSED, _closed(data))


def _signal(data: JobOpened) -> str:
    sources = [*data.evidence, *(f"HostEvent {name}" for name in data.host_events)]
    return f"The evidence holds: {', '.join(sources)}" if sources else "The evidence holds"


def _opened(data: JobOpened) -> str:
    by = f"rule {data.job.rule}" if data.job.rule else "a person"
    text = f"Job of {by} for {data.job.fault_class or 'no class'}, ladder {' > '.join(data.rungs)}"
    if data.previous:
        text += f"; a relapse after {data.previous}"
    return text + (f"; supersedes {data.supersedes}" if data.supersedes else "")


def _step(data: StepStarted, rungs: list[str]) -> str:
    name = rungs[data.rung] if data.rung < len(rungs) else str(data.rung + 1)
    return f"Rung {name}, step {data.step} by {data.by}"


def _reason(data: HoldStarted) -> str:
    return f"{data.reason} in {data.scope}" if data.scope else data.reason


def _decision(data: JobDecided) -> str:
    return f"{data.decision} by {data.by}" if data.by else f"{data.decision} by a person"


def _closed(data: JobClosed) -> str:
    text = f"{data.phase}: {data.reason}" if data.reason else data.phase
    return f"{text}, on rung {data.rung_name}" if data.rung_name else text


def _seconds(begin: datetime, end: datetime) -> str:
    return f"{(end - begin).total_seconds():.0f} s"
