"""Queue of refused requests: their answers, and what may free a slot for them.

A refused holder that asks again keeps its place; one that stops asking loses it. When a slot may be
free, `defender.decision.queue.selection` calls the next in line. For a short grace the slot is then
kept from all that are not better placed (`calls`). The queue holds back no other request.

The order is not a matter of safety: if the queue forgets something, places are lost, but never a
limit.
"""

from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush
from zlib import crc32

from defender.decision.census import Census, CensusMember, NodeHealth
from defender.decision.jobs import ObservedJob
from defender.decision.ledger import JOB, LedgerPermit, PermitLedger
from defender.decision.limits.case import LimitCase, LimitRefusal
from defender.decision.limits.table import LIMITS
from defender.decision.queue.calls import QueueCalls
from defender.decision.queue.entry import DUE, MOST_PENALTIES, Key, QueueEntry, QueuePlace, key_of
from defender.decision.queue.line import MOST_WAITING, QueueLine
from defender.decision.queue.news import QueueNews
from defender.decision.queue.room import rooms, takes
from defender.decision.queue.times import QueueTimes
from kubenode.api.v1alpha1 import Ask, Reason, Verdict
from kubenode.api.v1alpha1.permit import Holder

NEXT = 8
"""Number of next in line that ask again early, in case a call does not reach them."""
ZONE = "topology.kubernetes.io/zone"
FREED_BY_HEALTH = (
    *(each.reason for each in LIMITS if each.freed_by_health),
    Reason.DISPLACED_PODS,
)
"""Reasons that may end when a node becomes healthy."""
NOT_WAITING = (Reason.UNKNOWN, Reason.STALE_DATA, Reason.STORE_UNAVAILABLE)
"""Reasons for which no slot will be called: the request is wrong, or Kube Defender is not ready."""
USER = "User"
"""Kind of a holder that is a person at an API server, who does not wait for an answer."""


class PermitQueue:
    """The queue.

    news: lanes whose first request may be allowed by now.
    calls: holders for whom a slot is kept at the moment.
    """

    def __init__(
        self, census: Census, ledger: PermitLedger, times: QueueTimes | None = None
    ) -> None:
        self.times = times or QueueTimes()
        self.line = QueueLine()
        self.news = QueueNews(self.line)
        self.calls = QueueCalls(self.times)
        self._census, self._ledger = census, ledger
        self._lost: list[tuple[datetime, Key]] = []
        self._faults: dict[str, tuple[str, datetime]] = {}
        ledger.on_freed.append(self.freed)

    def __len__(self) -> int:
        return len(self.line)

    # -- asked by the verdict -----------------------------------------------------------------

    def refuse(self, case: LimitCase) -> LimitRefusal | None:
        """Refuse the act if others come first, else return None. Called when every limit allows the
        act.
        """
        claims = [entry for entry in self._called() if not self._yields_to(entry, case)]
        if not claims:
            return None
        for room in rooms(case):
            reserved = sum(takes(entry.ask, case, room) for entry in claims)
            if reserved and room.remaining <= reserved:
                return LimitRefusal(
                    room.reason,
                    f"{case.where(room.scope)}: what is free is kept for others who wait",
                    case.later(),
                    room.scope,
                    room.limit - room.remaining + reserved,
                    room.limit,
                )
        return None

    def _called(self) -> list[QueueEntry]:
        entries = (self.line.get(key) for key in self.calls)
        return [entry for entry in entries if entry is not None]

    def _yields_to(self, claim: QueueEntry, case: LimitCase) -> bool:
        """Return whether the called request is the asker's own, or worse placed than it."""
        key, now = key_of(case.ask), case.now
        if claim.key == key:
            return True
        mine = self.line.get(key) or self._entry(case.ask, now)
        bands = mine.band(now), claim.band(now)
        return bands[0] < bands[1] or (bands == (DUE, DUE) and mine.due < claim.due)

    # -- told of every answer -----------------------------------------------------------------

    def answered(self, ask: Ask, verdict: Verdict, now: datetime) -> Verdict:
        """Record an answer. Return it with a time to ask again that suits the asker's place."""
        if ask.dry_run:
            return verdict
        key = key_of(ask)
        self.calls.came(key)
        entry = self.line.get(key)
        if verdict.allowed or verdict.reason in NOT_WAITING:
            if verdict.allowed and not verdict.permit:
                self._served(ask, entry, now)
            self.forget(key)
            return verdict
        if ask.holder.kind == USER or (entry is None and self.line.is_full_for(ask.holder.user)):
            return verdict
        entry = entry or self._entry(ask, now)
        later = verdict.look_again_at or now + self.times.requeue_after
        entry.refused(ask, verdict, now)
        self._put(entry, later, now)
        entry.requeue_at = self._spread(entry, later, now)
        self._expect(entry)
        return verdict.model_copy(update={"look_again_at": entry.requeue_at})

    def _entry(self, ask: Ask, now: datetime) -> QueueEntry:
        fault = self._faults.get(ask.holder.name) if ask.holder.kind == JOB else None
        known = fault is not None and fault[0] == ask.holder.uid
        day = now - timedelta(days=1)
        before = [h for h in self._ledger.on_node(ask.node) if not h.open and h.granted_at > day]
        return QueueEntry(
            ask=ask,
            since=now,
            fault_since=min(now, fault[1]) if known and fault is not None else now,
            requested_at=now,
            requeue_at=now,
            reason=Reason.UNKNOWN,
            zone=self._zone(ask.node),
            failures=min(len(before), MOST_PENALTIES),
        )

    def _zone(self, node: str) -> str:
        member = self._census.member(node)
        return member.labels.get(ZONE, "") if member is not None else ""

    def _served(self, ask: Ask, entry: QueueEntry | None, now: datetime) -> None:
        self.line.turns.served(self._zone(ask.node))
        lane = self.line.lane(entry.lane) if entry is not None else None
        if lane is not None:
            lane.served(now)

    def _put(self, entry: QueueEntry, retry_at: datetime, now: datetime) -> None:
        lane = self.line.put(entry, now)
        if lane.retry_at is None or retry_at < lane.retry_at:
            self.news.schedule_retry(entry.lane, retry_at)

    def _spread(self, entry: QueueEntry, later: datetime, now: datetime) -> datetime:
        """Return the time to ask again: soon for the next in line, later for those behind."""
        seed = f"{entry.ask.holder.uid} {now.timestamp():.0f}"
        part = 0.5 + crc32(seed.encode()) % 1000 / 1000
        later = min(later, now + self.times.seldom * part)
        place = self.line.ahead(entry, now)
        if place < NEXT:
            return later
        lane = self.line.lane(entry.lane)
        each = lane.interval if lane is not None else None
        if each is None:
            each = self.times.requeue_after / NEXT
        return later + min(each * place, self.times.longest) * part

    def _expect(self, entry: QueueEntry) -> None:
        heappush(self._lost, (entry.requeue_at + self.times.lost, entry.key))
        if len(self._lost) > 16 * MOST_WAITING:
            self._lost = [(each.requeue_at + self.times.lost, each.key) for each in self.line]
            heapify(self._lost)

    def forget(self, key: Key) -> None:
        self.line.forget(key)
        self.calls.gone(key)

    # -- what may free a slot -----------------------------------------------------------------

    def freed(self, permit: LedgerPermit) -> None:
        """Record that a permit counts no longer."""
        self.news.of_scope(f"node={permit.node}")
        if permit.scopes is None:
            self.news.of_all()
        for scope in permit.scopes or ():
            self.news.of_scope(
                scope.rpartition(":")[2]
            )  # as `recorded` writes it, without the policy

    def node_changed(self, name: str, old: CensusMember | None, new: CensusMember | None) -> None:
        """Record a change in the census. A node that became healthy, or is gone, may free a
        slot.
        """
        self.news.of_scope(f"node={name}")
        healthy = new is not None and new.health is NodeHealth.HEALTHY
        if new is None or (healthy and (old is None or old.health is not NodeHealth.HEALTHY)):
            self.news.of_reasons(*FREED_BY_HEALTH)

    def governed(self) -> None:
        """Record that policies changed, so anything may be allowed now."""
        self.news.of_all()

    def breakers_changed(self) -> None:
        self.news.of_reasons(Reason.BREAKER_OPEN, Reason.COMMON_CAUSE)

    def job_changed(self, old: ObservedJob | None, new: ObservedJob | None) -> None:
        """Record the age of the fault. A job that has ended waits no longer."""
        job = new or old
        if job is None:
            return
        name, uid = job.metadata.name, job.metadata.uid
        if new is not None and new.open and new.acts:
            since = new.spec.trigger.first_true or new.metadata.creation_timestamp
            if since is not None:
                self._faults[name] = (uid, since)
            return
        known = self._faults.get(name)
        if known is not None and known[0] == uid:
            del self._faults[name]
        self.forget((JOB, uid, job.spec.node_name))

    def listen(self, listening: bool) -> None:
        """Record whether anybody listens. If nobody does, no slot is kept."""
        self.news.listening = listening
        if listening:
            self.calls.record_listener()
            self.news.of_all()

    # -- time ---------------------------------------------------------------------------------

    def advance(self, now: datetime) -> None:
        """Let time pass: forget holders that stopped asking, and expire calls."""
        self.line.advance(now)
        while self._lost and self._lost[0][0] <= now:
            entry = self.line.get(heappop(self._lost)[1])
            if entry is not None and entry.requeue_at + self.times.lost <= now:
                self.forget(entry.key)
        self.news.advance(now)
        for key in self.calls.expire_calls(now):
            entry = self.line.get(key)
            if entry is not None:
                entry.missed = True
                self.news.of_all()  # its slot is free for others

    def next_at(self) -> datetime | None:
        """Return when a holder may have to be called without other news, None for never."""
        times = (self.news.next_at(), self.calls.next_at())
        return min((at for at in times if at is not None), default=None)

    # -- calling: for defender.decision.queue.selection ------------------------------------------

    def first(self, now: datetime) -> QueueEntry | None:
        """Return the best placed request that may be allowed by now and can be called, None for
        none.
        """

        def may(key: Key) -> bool:
            entry = self.line.get(key)
            return entry is not None and self.calls.can_call(entry, now)

        entry, nobody = self.line.first(self.news, may)
        for lane_key in nobody:
            self.news.not_before(lane_key, now + self.times.requeue_after)
        return entry

    def blocked(self, entry: QueueEntry, verdict: Verdict, now: datetime) -> None:
        """Record that the request was judged and refused: its lane waits, or it changes lanes."""
        before = entry.lane
        entry.reason, entry.scope, entry.message = verdict.reason, verdict.scope, verdict.message
        later = verdict.look_again_at or now + self.times.requeue_after
        if entry.lane == before:
            self.news.not_before(before, later)
        else:
            self._put(entry, later, now)

    # -- people, and other replicas -----------------------------------------------------------

    def position(self, holder: Holder, node: str) -> QueuePlace | None:
        """Return the place of a holder among requests for the same, None if it does not wait."""
        entry = self.line.get((holder.kind, holder.uid, node))
        return None if entry is None else self._place(entry)

    def _place(self, entry: QueueEntry) -> QueuePlace:
        return QueuePlace.of(entry, self.line.ahead(entry), called=entry.key in self.calls)

    def would_be(self, ask: Ask, verdict: Verdict, now: datetime) -> int:
        """Return how many requests are better placed than one that is refused like this now."""
        entry = self._entry(ask, now)
        entry.refused(ask, verdict, now)
        return self.line.ahead(entry, now)

    def waiting(self, limit: int = MOST_WAITING) -> list[QueuePlace]:
        """Return the waiting requests in order."""
        return [self._place(entry) for entry in self.line.in_order()[:limit]]

    def counts(self) -> dict[tuple[str, str], int]:
        """Return the number of waiting requests by reason and scope."""
        return self.line.counts()
