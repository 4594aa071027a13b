"""Reconstruct the recent requests to Kube Defender from records. Pure.

Sources, the best first: the requests that a running Kube Defender remembers, Permits (what was
granted, and for how long), and RemedyOperationJobs (whose fault it was, and which wait). The rest
is estimated, and `Doubt` counts the estimates.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median

import msgspec

from defender.decision.jobs import JobTimes, JobViewStatus, ObservedJob
from defender.decision.ledger import JOB, LedgerPermit
from defender.decision.requests import PastRequest, RequestsPage
from kubenode.api.v1alpha1 import Ask, Disruption, Reason
from kubenode.api.v1alpha1.noderemedier import Severity
from kubenode.api.v1alpha1.permit import Holder, Operation, PermitState
from kubenode.runtime.hosttime import as_written
from kubenode.runtime.kube.objects import Node

USUAL = timedelta(minutes=15)
"""Assumed duration of an act, if no permit on record shows one."""
DEFENDERS = frozenset(reason.value for reason in Reason)


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One past request.

    at: time of the first ask.
    until: when its holder gave up, None if it would have continued.
    lasts: time from the grant to the release, None if it lasts beyond the end.
    was: when it was actually granted, None if it was not.
    """

    ask: Ask
    at: datetime
    until: datetime | None
    lasts: timedelta | None
    was: datetime | None = None


@dataclass(frozen=True, slots=True)
class PastFault:
    """A node that was unhealthy from `at` until its repair, or `until`.

    silent: its Ready condition was not True.
    uid: UID of the holder whose permit repairs it, "" for none.
    """

    node: str
    at: datetime
    until: datetime | None
    silent: bool
    uid: str = ""
    job: ObservedJob | None = None

    def opened(self) -> ObservedJob:
        """Return the job as it was during the fault."""
        assert self.job is not None
        status = JobViewStatus(phase="AwaitingPermit", timeline=JobTimes(fault_seen=self.at))
        return msgspec.structs.replace(self.job, status=status)

    def closed(self) -> ObservedJob:
        """Return the job as it was after the fault."""
        assert self.job is not None
        status = msgspec.structs.replace(self.job.status, phase="Succeeded")
        return msgspec.structs.replace(self.job, status=status)


@dataclass(slots=True)
class Doubt:
    """What the reconstruction does not know.

    remembered_since: start of the remembered requests. Of earlier ones only grants and waiting
        holders are known. None if no Kube Defender was asked.
    guessed: number of requests with an estimated duration.
    dropped: number of forgotten requests.
    gone: nodes of requests that no longer exist; these requests are left out.
    unseen: number of nodes that are not ready now and have no job.
    """

    remembered_since: datetime | None = None
    guessed: int = 0
    dropped: int = 0
    gone: set[str] = field(default_factory=set)
    unseen: int = 0


@dataclass(slots=True)
class History:
    """Requests and faults between `start` and `end`.

    before: permits granted earlier, as they were at the start.
    ends: by permit name, when those were released; missing if not before the end.
    """

    start: datetime
    end: datetime
    nodes: Sequence[Node]
    wishes: list[RecordedRequest]
    faults: list[PastFault]
    before: list[LedgerPermit]
    ends: dict[str, datetime]
    doubt: Doubt

    def healed_by(self, uid: str) -> list[PastFault]:
        return [fault for fault in self.faults if fault.uid == uid]


def history(
    nodes: Sequence[Node],
    permits: Iterable[LedgerPermit],
    jobs: Sequence[ObservedJob],
    page: RequestsPage | None,
    start: datetime,
    end: datetime,
) -> History:
    """Reconstruct the history.

    page: what a running Kube Defender remembers, None if there is none.
    """
    return _Rebuilding(nodes, list(permits), jobs, page, start, end).all()


class _Rebuilding:
    def __init__(
        self,
        nodes: Sequence[Node],
        permits: list[LedgerPermit],
        jobs: Sequence[ObservedJob],
        page: RequestsPage | None,
        start: datetime,
        end: datetime,
    ) -> None:
        self._nodes = {node.metadata.name: node for node in nodes}
        self._permits, self._page = permits, page
        self._start, self._end = start, end
        self._jobs = {job.metadata.uid: job for job in jobs}
        self._doubt = Doubt()
        self._usual = _durations(permits)

    def all(self) -> History:
        remembered = self._of_requests()
        known = {wish.ask.holder.uid for wish in remembered}
        covered = (
            {r.verdict.permit for r in self._page.requests} if self._page is not None else set()
        )
        wishes = [
            *remembered,
            *self._of_permits(covered),
            *self._of_waiting_jobs(known | {permit.holder.uid for permit in self._permits}),
        ]
        if self._page is not None:
            self._doubt.remembered_since = max(self._start, self._page.began)
            self._doubt.dropped = self._page.dropped
        there = [wish for wish in wishes if self._is_there(wish)]
        before = [permit for permit in self._permits if permit.granted_at < self._start]
        return History(
            self._start,
            self._end,
            list(self._nodes.values()),
            sorted(there, key=lambda wish: (wish.at, wish.ask.node, wish.ask.class_.weight)),
            self._faults(),
            [_as_at(permit, self._start) for permit in before],
            {
                permit.name: permit.released_at
                for permit in before
                if permit.released_at is not None
            },
            self._doubt,
        )

    def _is_there(self, wish: RecordedRequest) -> bool:
        if wish.ask.node in self._nodes:
            return True
        self._doubt.gone.add(wish.ask.node)
        return False

    # -- wishes -------------------------------------------------------------------------------

    def _of_requests(self) -> list[RecordedRequest]:
        if self._page is None:
            return []
        by_name = {permit.name: permit for permit in self._permits}
        return [
            self._of_request(request, by_name.get(request.verdict.permit))
            for request in self._page.requests
            if request.last_asked >= self._start
        ]

    def _of_request(self, request: PastRequest, permit: LedgerPermit | None) -> RecordedRequest:
        at = max(request.first_asked, self._start)
        given_up = not request.verdict.allowed and self._asks_no_more(request)
        until = request.last_asked if given_up else None
        was = request.granted_at
        return RecordedRequest(
            request.ask, at, until, self._lasts(request.ask.class_, permit, was), was
        )

    def _asks_no_more(self, request: PastRequest) -> bool:
        """Return whether its time to ask again had clearly passed at the end of the record."""
        again = request.verdict.look_again_at
        return again is not None and again + timedelta(minutes=2) < self._end

    def _of_permits(self, covered: set[str]) -> Iterable[RecordedRequest]:
        """Yield the grants for which no request is remembered."""
        for permit in self._permits:
            if permit.name in covered:
                continue
            for class_, at in permit.grants:
                if self._start <= at <= self._end:
                    ask = self._ask(permit.node, permit.holder, permit.operation, class_)
                    first = (
                        self._first_ask(permit.holder, at) if class_ is permit.grants[0][0] else at
                    )
                    yield RecordedRequest(ask, first, None, self._lasts(class_, permit, at), at)

    def _first_ask(self, holder: Holder, granted: datetime) -> datetime:
        """Return when the holder first asked.

        A job asks from its creation. If it needs approval, and for a later permit, the time of the
        grant is used.
        """
        job = self._jobs.get(holder.uid)
        mine = [permit.granted_at for permit in self._permits if permit.holder.uid == holder.uid]
        if job is None or granted > min(mine) or job.spec.approval.required:
            return granted
        return max(self._start, min(_made(job) or granted, granted))

    def _of_waiting_jobs(self, known: set[str]) -> Iterable[RecordedRequest]:
        """Yield requests of open jobs that never had a permit and whose hold names Kube Defender's
        refusal.
        """
        for uid, job in self._jobs.items():
            hold = job.status.hold
            if uid in known or not job.open or hold is None or hold.reason not in DEFENDERS:
                continue
            made = _made(job) or self._start
            if made > self._end:
                continue
            holder = Holder(kind=JOB, name=job.metadata.name, uid=uid)
            ask = self._ask(job.spec.node_name, holder, Operation.REPAIR, Disruption.NODE)
            yield RecordedRequest(ask, max(made, self._start), None, self._guess(Disruption.NODE))

    def _ask(self, node: str, holder: Holder, operation: Operation, class_: Disruption) -> Ask:
        job = self._jobs.get(holder.uid)
        ask = Ask(operation=operation, class_=class_, node=node, holder=holder)
        if job is None:
            return ask
        sources = sorted({fact.source for fact in job.spec.trigger.facts if fact.source})
        severity = {each.value: each for each in Severity}.get(job.spec.severity, ask.severity)
        return ask.model_copy(
            update={
                "severity": severity,
                "fault_class": job.spec.fault_class or ask.fault_class,
                "evidence": sources[:64],
                "deadline": job.spec.deadline,
            }
        )

    def _lasts(
        self, class_: Disruption, permit: LedgerPermit | None, granted: datetime | None
    ) -> timedelta | None:
        if permit is None or granted is None:
            return self._guess(class_)
        if permit.released_at is None:
            return None
        return max(timedelta(), permit.released_at - granted)

    def _guess(self, class_: Disruption) -> timedelta:
        self._doubt.guessed += 1
        return self._usual.get(class_, USUAL)

    # -- faults -------------------------------------------------------------------------------

    def _faults(self) -> list[PastFault]:
        faults = [fault for job in self._jobs.values() if (fault := self._of_job(job)) is not None]
        faulty_nodes = {fault.node for fault in faults}
        for name, node in self._nodes.items():
            since = not_ready_since(node)
            if since is not None and name not in faulty_nodes:
                self._doubt.unseen += 1
                faults.append(PastFault(name, max(since, self._start), None, silent=True))
        return sorted(faults, key=lambda fault: (fault.at, fault.node))

    def _of_job(self, job: ObservedJob) -> PastFault | None:
        if not job.acts or job.spec.node_name not in self._nodes:
            return None
        began_at = job.spec.trigger.first_true or job.metadata.creation_timestamp
        closed = job.status.timeline.closed
        if (
            began_at is None
            or began_at > self._end
            or (closed is not None and closed < self._start)
        ):
            return None
        helped = any(permit.holder.uid == job.metadata.uid for permit in self._permits)
        silent = any(fact.atom.startswith("condition Ready ") for fact in job.spec.trigger.facts)
        until = None if helped or closed is None else closed
        return PastFault(
            job.spec.node_name, max(began_at, self._start), until, silent, job.metadata.uid, job
        )


def _made(job: ObservedJob) -> datetime | None:
    return job.status.timeline.job_created or job.metadata.creation_timestamp


def _durations(permits: Iterable[LedgerPermit]) -> Mapping[Disruption, timedelta]:
    """Return the median duration of each class."""
    seconds: dict[Disruption, list[float]] = {}
    for permit in permits:
        if permit.released_at is not None:
            lasted = (permit.released_at - permit.granted_at).total_seconds()
            seconds.setdefault(permit.class_, []).append(lasted)
    return {class_: timedelta(seconds=median(each)) for class_, each in seconds.items()}


def _as_at(permit: LedgerPermit, start: datetime) -> LedgerPermit:
    """Return an earlier permit as it was at the start."""
    ended = permit.released_at is not None and permit.released_at < start
    return LedgerPermit(
        name=permit.name,
        node=permit.node,
        operation=permit.operation,
        holder=permit.holder,
        grants=[grant for grant in permit.grants if grant[1] < start],
        expires_at=permit.expires_at,
        state=PermitState.RELEASED if ended else PermitState.GRANTED,
        scopes=permit.scopes,
        released_at=permit.released_at if ended else None,
        uid=permit.uid,
    )


def not_ready_since(node: Node) -> datetime | None:
    ready = node.ready_condition
    if ready is None or ready.status == "True" or ready.last_transition_time is None:
        return None
    return as_written(ready.last_transition_time)
