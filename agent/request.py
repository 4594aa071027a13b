"""Parses the requests of a job to this agent, and decides whether one may be executed. Pure.

A request is a step of a job with `by: Agent` and `state: Running`. The job's UID and the requestID
identify it, because the requestIDs of each job start from the same number.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from agent.wire import WireAgentStep, WireJob, WireStepStatus, format_time
from kubenode.runtime import duration

DEFAULT_TIMEOUT = 120.0
"""Seconds. In the API an agent step times out after 2m by default."""
MAX_TIMEOUT = 3600.0
CLOSED = frozenset({"Succeeded", "Failed", "Cancelled", "Shadowed"})
FINAL = frozenset({"Done", "Failed", "Refused"})
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")


@dataclass(frozen=True, slots=True)
class Key:
    """Identity of a request over all jobs and restarts. Both parts are valid in a file name."""

    job_uid: str
    request_id: str

    def __str__(self) -> str:
        return f"{self.job_uid}.{self.request_id}"


@dataclass(frozen=True, slots=True)
class StepRequest:
    """A request as it was read. boot_id: "" if not given; expires_at: None if not given.

    permit: name of the job's Permit; "" if the job names none
    """

    key: Key
    job: str
    node: str
    agent: str
    boot_id: str
    expires_at: datetime | None
    step: WireAgentStep | None
    timeout: float
    permit: str = ""


class AgentRequestError(ValueError):
    """A request is invalid; the text names field and value."""


def open_requests(job: WireJob) -> Iterator[tuple[str, WireStepStatus]]:
    """Return requestID and step of every request to an agent without a final answer."""
    status = job.status
    if status is None or status.phase in CLOSED:
        return
    for step in status.steps or ():
        if step.by != "Agent" or step.state != "Running" or not step.request_id:
            continue
        answered = job.answer(step.request_id)
        if answered is None or answered.state not in FINAL:
            yield step.request_id, step


def list_obsolete(job: WireJob) -> list[str]:
    """Return the answered requests that no step refers to. The API keeps at most 128 requests."""
    status = job.status
    if status is None or status.agent is None:
        return []
    known = {step.request_id for step in status.steps or ()}
    return [name for name in status.agent.requests or () if name not in known]


def read(job: WireJob, step: WireStepStatus) -> StepRequest:
    """Parse a step into a request.

    Raises AgentRequestError for a step without a usable request ID: it could not be recorded.
    """
    if not _SAFE.fullmatch(step.request_id or ""):
        raise AgentRequestError(
            f"requestID {step.request_id!r}: letters, digits and - only, at most 64"
        )
    if not _SAFE.fullmatch(job.metadata.uid):
        raise AgentRequestError(f"metadata.uid {job.metadata.uid!r} is no uid")
    action = job.action_of(step)
    permit = job.status.permit if job.status is not None else None
    timeout = DEFAULT_TIMEOUT
    if action is not None and action.timeout:
        try:
            timeout = duration.seconds(action.timeout)
        except ValueError as error:
            raise AgentRequestError(f"timeout of step {step.index}: {error}") from error
    return StepRequest(
        key=Key(job.metadata.uid, step.request_id or ""),
        job=job.metadata.name,
        node=job.spec.node_name,
        agent=job.spec.agent,
        boot_id=step.boot_id or "",
        expires_at=step.expires_at,
        step=action,
        timeout=min(timeout, MAX_TIMEOUT),
        permit=permit.name if permit is not None else "",
    )


def refusal(
    request: StepRequest,
    *,
    agent: str,
    node: str,
    boot_id: str,
    now: datetime,
    server_now: datetime | None = None,
) -> str:
    """Describe why the request must not be executed; "" if it may be.

    now: time of this host's clock, which may itself need a repair
    server_now: latest possible time of the API server's clock, which set the expiry; None: unknown,
        and the host's clock is used

    Unknown facts refuse the request. Without a boot ID or an expiry it may be an old request that
    reaches an agent after a long pause.
    """
    if request.agent != agent:
        return f"the job is for agent {request.agent!r}, this is {agent!r}"
    if request.node != node:
        return f"the job is for node {request.node!r}, this host is {node!r}"
    if not boot_id:
        return "this host's boot ID cannot be read"
    if not request.boot_id:
        return "the request names no boot ID"
    if request.boot_id != boot_id:
        return f"asked of boot {request.boot_id}, this host runs boot {boot_id}"
    if request.expires_at is None:
        return "the request has no expiry"
    if (server_now or now) >= request.expires_at:
        clock_owner = "the host's" if server_now is None else "the API server's"
        return f"expired at {format_time(request.expires_at)}, {clock_owner} clock is past it"
    if request.step is None:
        return "the ladder has no agent step at this place"
    return ""
