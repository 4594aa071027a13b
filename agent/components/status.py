"""Builds the status of one component from its record and the last host state. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from agent.components.differences import on_the_wire, run_state
from agent.components.drift.compare import Drifted, HostState
from agent.components.model import MOVING, ComponentApplyState, ComponentRecord, StoredComponent
from kubenode.runtime.components.wire import Previous, WireComponentStatus

LONGEST = 1024
HIDDEN = "(hidden)"
SHORTEST_SECRET = 4
"""Characters; a shorter text occurs anywhere."""


def status_of(
    record: ComponentRecord,
    host_state: HostState | None,
    drift: Sequence[Drifted],
    since: Mapping[tuple[str, str], datetime],
    now: datetime,
) -> WireComponentStatus:
    """Build the entry of `status.components`.

    host_state, drift: of what is applied; a None state is unknown
    since: when each drift was first observed, by kind and path
    """
    applied, previous = record.applied, record.previous
    whole = record.state not in MOVING and record.state is not ComponentApplyState.FAILED
    return WireComponentStatus(
        name=record.name,
        revision=record.revision,
        attempt=record.attempt,
        version=_version(record, host_state),
        config_hash=applied.config_hash if applied is not None and whole else "",
        run_state="Absent"
        if record.state is ComponentApplyState.ABSENT
        else run_state(record, host_state),
        state=record.state.value,
        previous=Previous(previous.component, previous.config_hash) if previous else None,
        staged_at=record.staged_at.replace(microsecond=0) if record.staged_at else None,
        needs=record.needs.value if record.needs is not None else None,
        drift=on_the_wire(drift, record.fights, since, now),
        reason="Interrupted" if record.interrupted else record.reason,
        message=discreet(_message(record), record)[:LONGEST],
    )


def _message(record: ComponentRecord) -> str:
    if not record.interrupted:
        return record.message
    note = f"interrupted at {record.at}: a change of class {record.how} waits for a permit"
    return f"{note}; {record.message}" if record.message else note


def _version(record: ComponentRecord, host_state: HostState | None) -> str:
    if host_state is not None:
        return host_state.installed.version
    if (
        record.state in MOVING
        or record.state is ComponentApplyState.ABSENT
        or record.applied is None
    ):
        return ""
    return record.applied.spec.version


def discreet(text: str, record: ComponentRecord) -> str:
    """Hide the words and lines of secret files, because programs may print them."""
    for component in (record.target, record.applied, record.stray, record.previous):
        for secret in _secrets(component):
            text = text.replace(secret, HIDDEN)
    return text


def _secrets(component: StoredComponent | None) -> list[str]:
    files = component.rendered.files if component is not None else ()
    lines = {
        word
        for f in files
        if f.salt
        for line in f.content.splitlines()
        for word in (line.strip(), *line.split())
    }
    return sorted(
        (secret for secret in lines if len(secret) >= SHORTEST_SECRET), key=len, reverse=True
    )
