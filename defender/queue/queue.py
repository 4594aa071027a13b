"""What the verdict asks of those who wait, what they are told, and what may free a slot for them.

A refused holder that asks again keeps its place; one that stops asking loses it. When a slot may
have become free, `defender.queue.calling` calls the next in line: for a short grace a slot is then
kept from whoever is not better placed (`calls`). Nobody else is in anybody's way.

Order is not safety: what the queue forgets costs places, never a limit.
"""

from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush
from zlib import crc32

from defender.census import Census, CensusMember, NodeHealth
from defender.jobs import ObservedJob
from defender.ledger import JOB, LedgerPermit, PermitLedger
from defender.limits.case import LimitCase, LimitRefusal
from defender.queue.calls import QueueCalls
from defender.queue.entry import DUE, MOST_PENALTIES, Key, QueueEntry, QueuePlace, key_of
from defender.queue.line import MOST_WAITING, QueueLine
from defender.queue.news import QueueNews
from defender.queue.room import rooms, takes
from defender.queue.times import QueueTimes
from kubenode.api.v1alpha1 import Ask, Reason, Verdict
from kubenode.api.v1alpha1.permit import Holder

NEXT = 8
"""As many of those next in line look again early, should a call not reach them."""
ZONE = "topology.kubernetes.io/zone"
NOT_WAITING = (Reason.UNKNOWN, Reason.STALE_DATA, Reason.STORE_UNAVAILABLE)
"""The asker is wrong, or Kube Defender is blind: no slot will be called out for it."""
USER = "User"
"""Kind of a holder that is a person at an API server: it gets its answer and goes."""


class PermitQueue:
    """news   of which lanes the first may be allowed by now
    calls  for whom a slot is kept at the moment
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
        """Why others come first, None if none does. Asked when every limit would allow the act."""
        claims = [entry for entry in self._called() if not self._gives_way(entry, case)]
        if not claims:
            return None
        for room in rooms(case):
            kept = sum(takes(entry.ask, case, room) for entry in claims)
            if kept and room.left <= kept:
                return LimitRefusal(
                    room.reason,
                    f"{case.where(room.scope)}: what is free is kept for others who wait",
                    case.later(),
                    room.scope,
                    room.limit - room.left + kept,
                    room.limit,
                )
        return None

    def _called(self) -> list[QueueEntry]:
        found = (self.line.get(key) for key in self.calls)
        return [entry for entry in found if entry is not None]

    def _gives_way(self, claim: QueueEntry, case: LimitCase) -> bool:
        """Whether the one that was called is the asker, or one that the asker comes before."""
        key, now = key_of(case.ask), case.now
        if claim.key == key:
            return True
        mine = self.line.get(key) or self._entry(case.ask, now)
        bands = mine.band(now), claim.band(now)
        return bands[0] < bands[1] or (bands == (DUE, DUE) and mine.due < claim.due)

    # -- told of every answer -----------------------------------------------------------------

    def answered(self, ask: Ask, verdict: Verdict, now: datetime) -> Verdict:
        """The answer, with the time to ask again that suits the asker's place."""
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
        later = verdict.look_again_at or now + self.times.look_again
        entry.refused(ask, verdict, now)
        self._put(entry, later, now)
        entry.look_again_at = self._spread(entry, later, now)
        self._expect(entry)
        return verdict.model_copy(update={"look_again_at": entry.look_again_at})

    def _entry(self, ask: Ask, now: datetime) -> QueueEntry:
        fault = self._faults.get(ask.holder.name) if ask.holder.kind == JOB else None
        known = fault is not None and fault[0] == ask.holder.uid
        day = now - timedelta(days=1)
        before = [h for h in self._ledger.on_node(ask.node) if not h.open and h.granted_at > day]
        return QueueEntry(
            ask=ask,
            since=now,
            fault_since=min(now, fault[1]) if known and fault is not None else now,
            asked_at=now,
            look_again_at=now,
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
            self.news.look_at(entry.lane, retry_at)

    def _spread(self, entry: QueueEntry, later: datetime, now: datetime) -> datetime:
        """The next in line come soon, those behind them when their slot is to be expected."""
        seed = f"{entry.ask.holder.uid} {now.timestamp():.0f}"
        part = 0.5 + crc32(seed.encode()) % 1000 / 1000
        later = min(later, now + self.times.seldom * part)
        place = self.line.ahead(entry, now)
        if place < NEXT:
            return later
        lane = self.line.lane(entry.lane)
        each = lane.interval if lane is not None else None
        if each is None:
            each = self.times.look_again / NEXT
        return later + min(each * place, self.times.longest) * part

    def _expect(self, entry: QueueEntry) -> None:
        heappush(self._lost, (entry.look_again_at + self.times.lost, entry.key))
        if len(self._lost) > 16 * MOST_WAITING:
            self._lost = [(each.look_again_at + self.times.lost, each.key) for each in self.line]
            heapify(self._lost)

    def forget(self, key: Key) -> None:
        self.line.forget(key)
        self.calls.gone(key)

    # -- what may free a slot -----------------------------------------------------------------

    def freed(self, held: LedgerPermit) -> None:
        """A permit counts no longer."""
        self.news.of_scope(f"node={held.node}")
        if held.scopes is None:
            self.news.of_all()
        for scope in held.scopes or ():
            self.news.of_scope(
                scope.rpartition(":")[2]
            )  # as `recorded` writes it, without the policy

    def node_changed(self, name: str, old: CensusMember | None, new: CensusMember | None) -> None:
        """The census counts `new` now. A node that became healthy, or is gone, makes room."""
        self.news.of_scope(f"node={name}")
        healthy = new is not None and new.health is NodeHealth.HEALTHY
        if new is None or (healthy and (old is None or old.health is not NodeHealth.HEALTHY)):
            self.news.of_reasons(Reason.MIN_HEALTHY, Reason.DISPLACED_PODS)

    def governed(self) -> None:
        """Policies changed: anything may be allowed now."""
        self.news.of_all()

    def breakers_changed(self) -> None:
        self.news.of_reasons(Reason.BREAKER_OPEN, Reason.COMMON_CAUSE)

    def job_changed(self, old: ObservedJob | None, new: ObservedJob | None) -> None:
        """How old the fault is; a job that is over waits no longer."""
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

    def listen(self, heard: bool) -> None:
        """Whether anybody hears calls from now on; if nobody does, no slot is kept for anyone."""
        self.news.listening = heard
        if heard:
            self.calls.heard()
            self.news.of_all()

    # -- time ---------------------------------------------------------------------------------

    def advance(self, now: datetime) -> None:
        """Let time pass: who stopped asking is forgotten, who was called and did not come waits."""
        self.line.advance(now)
        while self._lost and self._lost[0][0] <= now:
            entry = self.line.get(heappop(self._lost)[1])
            if entry is not None and entry.look_again_at + self.times.lost <= now:
                self.forget(entry.key)
        self.news.advance(now)
        for key in self.calls.over(now):
            entry = self.line.get(key)
            if entry is not None:
                entry.missed = True
                self.news.of_all()  # the slot kept for it is anybody's

    def next_at(self) -> datetime | None:
        """When somebody may have to be called without other news."""
        times = (self.news.next_at(), self.calls.next_at())
        return min((at for at in times if at is not None), default=None)

    # -- calling: for defender.queue.calling --------------------------------------------------

    def first(self, now: datetime) -> QueueEntry | None:
        """The best placed of all that may be allowed by now and can be called."""

        def may(key: Key) -> bool:
            entry = self.line.get(key)
            return entry is not None and self.calls.can_call(entry, now)

        entry, nobody = self.line.first(self.news, may)
        for lane_key in nobody:
            self.news.not_before(lane_key, now + self.times.look_again)
        return entry

    def blocked(self, entry: QueueEntry, verdict: Verdict, now: datetime) -> None:
        """It was judged, and may not go: its lane waits, or it waits in another one by now."""
        before = entry.lane
        entry.reason, entry.scope, entry.message = verdict.reason, verdict.scope, verdict.message
        later = verdict.look_again_at or now + self.times.look_again
        if entry.lane == before:
            self.news.not_before(before, later)
        else:
            self._put(entry, later, now)

    # -- people, and other replicas -----------------------------------------------------------

    def position(self, holder: Holder, node: str) -> QueuePlace | None:
        """Where a holder waits among those who wait for the same; None if it does not wait."""
        entry = self.line.get((holder.kind, holder.uid, node))
        return None if entry is None else self._place(entry)

    def _place(self, entry: QueueEntry) -> QueuePlace:
        return QueuePlace.of(entry, self.line.ahead(entry), called=entry.key in self.calls)

    def would_be(self, ask: Ask, verdict: Verdict, now: datetime) -> int:
        """How many are better placed than one that asks now and is refused like that."""
        entry = self._entry(ask, now)
        entry.refused(ask, verdict, now)
        return self.line.ahead(entry, now)

    def waiting(self, limit: int = MOST_WAITING) -> list[QueuePlace]:
        """Everybody in order."""
        return [self._place(entry) for entry in self.line.in_order()[:limit]]

    def counts(self) -> dict[tuple[str, str], int]:
        """How many wait, by reason and scope."""
        return self.line.counts()
