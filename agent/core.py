"""Handles the requests of one job: at most one act for each request, at least one answer.

    request ──► begun before? ──yes──► its outcome, or proof, or "interrupted; not repeated"
                 │ no
                 ├──► still requested, read live?             ──no──► nothing
                 ├──► for this agent and boot, not expired?   ──no──► Refused
                 ├──► permit valid, read live (agent.jobpermits)? ──no──► Refused
                 ▼
              intent on disk ──► act ──► outcome on disk ──► answer on the API server

The process may die after every arrow. The journal on disk decides whether an act may begin; the API
server only decides whether it is requested. An answer that could not be written is written later
from the journal. Errors of the API server are raised to the caller, who retries the job.

The expiry is a time of the API server's clock, and is compared with that clock. The live read
returns its time, so a wrong clock of this host does not matter.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Protocol

from agent import request as requests
from agent.actions import CATALOGUE, Action, Bench
from agent.host import Contraindicated, HostError, HostUnreachable
from agent.jobpermits import RECENT_SECONDS, JobPermits
from agent.journal import Journal, JournalEntry, JournalError, PatientJournal
from agent.outcome import INTERRUPTED, OutcomeState, StepOutcome, failed, refused
from agent.outcomes import Settling
from agent.patience import AT_ONCE, Waits
from agent.probes import CannotAnswer
from agent.request import AgentRequestError, StepRequest
from agent.wire import WireAnswer, WireJob, WireStepStatus, format_time
from kubenode.runtime.kube.errors import KubeError

log = logging.getLogger(__name__)

LOGGED = 200
"""Characters of an output in the log. The job's status has all of it."""


class JobClient(Protocol):
    """Client for jobs. Both methods raise KubeError."""

    async def read(self, name: str) -> WireJob | None:
        """Return the live job; None if it does not exist."""
        ...

    async def answer(
        self, job: str, request_id: str, answer: WireAnswer, obsolete: Collection[str] = ()
    ) -> str:
        """Write one answer; return the job's new resourceVersion, "" if the job does not exist.

        obsolete: requests whose answers are removed, because no step refers to them
        """
        ...


class AgentCore:
    """Handles jobs on one host. Call `handle` for one job at a time.

    node, agent: names that jobs must have; see `request.refusal`
    patience: runs disk work of the journal with a timeout
    server_now: returns the latest possible time of the API server's clock; None: unknown
    permits: reads the permits of jobs live; None: permits are not checked
    """

    def __init__(
        self,
        jobs: JobClient,
        bench: Bench,
        journal: Journal,
        *,
        node: str,
        agent: str,
        catalogue: Mapping[str, Action] = CATALOGUE,
        patience: Waits = AT_ONCE,
        server_now: Callable[[], datetime | None] = lambda: None,
        permits: JobPermits | None = None,
    ) -> None:
        self._permits = permits
        self._jobs = jobs
        self._bench = bench
        self._journal = PatientJournal(journal, patience)
        self._node = node
        self._agent = agent
        self._server_now = server_now
        self._catalogue = catalogue
        self._settling = Settling(bench, self._journal, catalogue)
        self._written: dict[str, int] = {}  # job UID to the resourceVersion of the last answer

    async def recover(self) -> None:
        """Settle the requests that an earlier process left unfinished. Call it first at the start.

        The earlier it runs, the more it can prove. Raises JournalError.
        """
        for key, entry in await self._journal.interrupted():
            log.warning(
                "a request was interrupted",
                extra={"job": entry.job, "request": key.request_id, "action": entry.action},
            )
            await self._settling.settle(key, entry)

    async def handle(self, job: WireJob) -> None:
        """Answer every open request of `job`. Raises KubeError: then retry."""
        if job.spec.agent != self._agent:
            return  # the job of another agent: the API server would refuse the answer
        pending = list(requests.open_requests(job))
        if not pending:
            self._written.pop(job.metadata.uid, None)
            return
        if self._behind(job):
            return  # older than the last answer: a newer state will arrive
        for request_id, step in pending:
            answer = await self._answer_request(job, step)
            if answer is not None:
                version = await self._jobs.answer(
                    job.metadata.name, request_id, answer, requests.list_obsolete(job)
                )
                self._written[job.metadata.uid] = _number(version)
                log.info(
                    "answered",
                    extra={
                        "job": job.metadata.name,
                        "request": request_id,
                        "state": answer.state,
                        "output": answer.output[:LOGGED],
                    },
                )

    def _behind(self, job: WireJob) -> bool:
        return _number(job.metadata.resource_version) < self._written.get(job.metadata.uid, 0)

    async def _answer_request(self, job: WireJob, step: WireStepStatus) -> WireAnswer | None:
        """Return the answer to one request; None if it is no longer requested."""
        try:
            request = requests.read(job, step)
        except AgentRequestError as error:
            return self._refuse(str(error))
        try:
            entry = await self._journal.read(request.key)
        except JournalError as error:
            return self._without_entry(failed(f"{error}; {INTERRUPTED}"))
        if entry is not None:
            return self._answer(await self._settling.settle(request.key, entry))
        live = await self._live(job, step)
        return None if live is None else await self._begin(live)

    def _unfit(self, request: StepRequest) -> str:
        why = requests.refusal(
            request,
            agent=self._agent,
            node=self._node,
            boot_id=self._bench.host.boot_id(),
            now=self._bench.clock.now(),
            server_now=self._server_now(),
        )
        if why or request.step is None:
            return why
        action = self._catalogue.get(request.step.action)
        if action is None:
            return f"this agent cannot {request.step.action}"
        return action.unfit(request)

    async def _live(self, job: WireJob, step: WireStepStatus) -> StepRequest | None:
        """Return the request as it is live; None if it is gone: a watch may be behind."""
        now = await self._jobs.read(job.metadata.name)
        if now is None or now.metadata.uid != job.metadata.uid or now.spec.cancel:
            return None
        for request_id, live in requests.open_requests(now):
            if request_id == step.request_id:
                return requests.read(now, live)
        return None

    async def _begin(self, request: StepRequest) -> WireAnswer:
        """Read the host, write the intent, act, write the outcome."""
        if why := self._unfit(request):
            return self._refuse(why)
        assert request.step is not None and request.expires_at is not None
        clock, action = self._bench.clock, self._catalogue[request.step.action]
        if why := await self._without_permit(request):
            return self._refuse(why)
        now, permitted = clock.now(), clock.monotonic()
        limit = min(request.timeout, self._until(request.expires_at))
        try:
            before = await action.read_before(request, self._bench)
        except Contraindicated as error:
            return self._refuse(str(error))
        except HostError as error:
            return self._without_entry(failed(str(error)))
        if action.announced:
            await self._announce(request)
        entry = JournalEntry(
            job=request.job,
            action=request.step.action,
            boot_id=self._bench.host.boot_id(),
            started_at=now,
            expires_at=request.expires_at,
            limit=limit,
            before=dict(before),
        )
        try:
            await self._journal.begin(request.key, entry, now)
        except JournalError as error:
            return self._refuse(f"{error}; without it nothing is begun")
        # Check again: writing to a slow disk may have taken long.
        if why := self._unfit(request) or await self._late_permit(request, permitted):
            outcome = refused(why)
        else:
            outcome = await self._act(action, request, entry)
        return self._answer(await self._settling.finish(request.key, entry, outcome))

    async def _without_permit(self, request: StepRequest) -> str:
        """Describe why no permit allows the request; "" if one does. Raises KubeError: then
        retry.
        """
        return await self._permits.refusal(request) if self._permits is not None else ""

    async def _late_permit(self, request: StepRequest, read_at: float) -> str:
        """Check the permit again after the intent is on disk, if that took long."""
        if self._bench.clock.monotonic() - read_at <= RECENT_SECONDS:
            return ""
        try:
            return await self._without_permit(request)
        except KubeError as error:
            return f"the permit of the job cannot be read: {error}"

    async def _announce(self, request: StepRequest) -> None:
        """Write the answer Running, because the act may end this process. Raises KubeError: not
        begun.
        """
        at = format_time(self._bench.clock.now())
        boot_id = self._bench.host.boot_id()
        answer = WireAnswer(state=OutcomeState.RUNNING.value, boot_id=boot_id, started_at=at)
        version = await self._jobs.answer(request.job, request.key.request_id, answer)
        self._written[request.key.job_uid] = _number(version)

    async def _act(self, action: Action, request: StepRequest, entry: JournalEntry) -> StepOutcome:
        log.info(
            "acting",
            extra={"job": entry.job, "request": request.key.request_id, "action": entry.action},
        )
        try:
            return await action.act(
                request, entry.before, self._remaining_seconds(request, entry), self._bench
            )
        except HostUnreachable as error:
            # A repair of the message bus itself ends like this.
            proven = await self._settling.proof(action, entry)
            return proven or failed(f"{error}; what came of it is unknown")
        except HostError as error:
            return failed(str(error))
        except CannotAnswer as error:
            return failed(f"{error}; what came of it is unknown")

    def _remaining_seconds(self, request: StepRequest, entry: JournalEntry) -> float:
        """Return the seconds for the act, which must end before the operator gives up at the
        expiry.
        """
        assert request.expires_at is not None
        return min(entry.limit, self._until(request.expires_at))

    def _until(self, expires_at: datetime) -> float:
        return (expires_at - (self._server_now() or self._bench.clock.now())).total_seconds()

    # -- answers --------------------------------------------------------------------------------

    def _answer(self, entry: JournalEntry) -> WireAnswer:
        assert entry.outcome is not None
        return WireAnswer(
            state=entry.outcome.state.value,
            boot_id=entry.ended_on or entry.boot_id,
            started_at=format_time(entry.started_at),
            finished_at=format_time(entry.finished_at) if entry.finished_at else None,
            code=entry.outcome.code,
            output=entry.outcome.output,
        )

    def _without_entry(self, outcome: StepOutcome) -> WireAnswer:
        """Return the answer to a request that this process did not begin."""
        at = format_time(self._bench.clock.now())
        return WireAnswer(
            state=outcome.state.value,
            boot_id=self._bench.host.boot_id(),
            started_at=at,
            finished_at=at,
            code=outcome.code,
            output=outcome.output,
        )

    def _refuse(self, why: str) -> WireAnswer:
        return self._without_entry(refused(why))


def _number(resource_version: str) -> int:
    """Return the resourceVersion as a number; 0 for none. It is comparable (Kubernetes 1.35)."""
    return int(resource_version) if resource_version.isdecimal() else 0
