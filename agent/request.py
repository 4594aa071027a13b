"""What a job asks of this agent, and whether it may be done at all: pure.

A request is one step of a job that says `by: Agent` and `state: Running`. Its identity is the
job's uid and the requestID: two jobs count their requests from the start alike.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from agent.wire import WireAgentStep, WireJob, WireStepStatus, format_time
from kubenode.runtime import duration

DEFAULT_TIMEOUT = 120.0
"""Seconds; api-remedy: agent steps time out after 2m unless they say otherwise."""
MAX_TIMEOUT = 3600.0
CLOSED = frozenset({"Succeeded", "Failed", "Cancelled", "Shadowed"})
FINAL = frozenset({"Done", "Failed", "Refused"})
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")


@dataclass(frozen=True, slots=True)
class Key:
    """Which request, over all jobs and restarts. Both parts fit into a file name."""

    job_uid: str
    request_id: str

    def __str__(self) -> str:
        return f"{self.job_uid}.{self.request_id}"


@dataclass(frozen=True, slots=True)
class StepRequest:
    """A request as it was read; `boot_id` "" and `expires_at` None were not given.

    permit  name of the Permit that the job holds, "" if it names none
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
    """A request that makes no sense; the text names field and value."""


def open_requests(job: WireJob) -> Iterator[tuple[str, WireStepStatus]]:
    """requestID and step of all that is asked of an agent and has no final answer yet."""
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
    """Requests that were answered and that no step speaks of any more; the API keeps 128 in all."""
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
    """Why it must not be done, in a sentence; "" if nothing speaks against it.

    now         by this host's clock, which may be the very thing to repair
    server_now  what it is at the API server at the latest, whose clock made the expiry; None: not
                known, and the host's clock counts

    What is unknown speaks against it: a request without a boot ID or an expiry could be an old
    one that an agent, awake again after a long sleep, would act on.
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
