"""Multi-replica operation through a log in Redis; without Redis the holder of the lease answers
alone.

- take: adds the permit to the log, if nobody took anything that the judging replica had not seen.
- confirm: after the Permit is written, checks that the log still has it, in the same reign.

Both check the coordination record (`step`) and Redis. While the state is unknown, requests are
refused.
"""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from defender.decision.ledger import LedgerPermit
from defender.replicas.charge.charge import NotInCharge
from defender.replicas.charge.record import RecordStore
from defender.replicas.charge.retention import Trimming
from defender.replicas.charge.step import (
    AnswerSource,
    CoordinationMode,
    CoordinationObservation,
    CoordinationRecord,
    CoordinationState,
    CoordinationTimes,
    Phase,
    Redis,
    answers,
    step,
)
from defender.replicas.redis.entry import written
from defender.replicas.redis.log import (
    Away,
    LogChanges,
    LogEntry,
    RedisEpoch,
    SharedLog,
    Strange,
    Unfit,
)
from defender.replicas.redis.merge import merge, version
from defender.server.store import PermitStore
from kubenode.api.v1alpha1 import Permit
from kubenode.runtime.clock import Clock
from kubenode.runtime.fence import Fence, LeaseLost
from kubenode.runtime.kube.errors import KubeError
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.process import Part

log = logging.getLogger(__name__)

EVERYTHING = -1
"""Version that requests the whole log."""
WHY = {
    Phase.FOLLOW: "who answers could not be read from the API server lately",
    Phase.CLAIM: "Redis cannot be used: the holder of the lease is about to answer alone",
    Phase.DRAIN: "Redis cannot be used: waiting until every replica has stopped answering by it",
    Phase.LOAD: "the permits are being loaded",
    Phase.BEGIN: "Redis is back: its log is begun anew",
    Phase.PUBLISH: "Redis is back: its log is begun anew",
}


class Shared:
    """A Charge, and a part that must run on every replica."""

    name = "defender charge"

    def __init__(
        self,
        store: PermitStore,
        fence: Fence,
        permits: Informer[Permit],
        shared: SharedLog,
        recorder: RecordStore,
        clock: Clock,
        times: CoordinationTimes | None = None,
    ) -> None:
        self._store, self._ledger = store, store.ledger
        self._fence, self._permits = fence, permits
        self._log, self._recorder, self._clock = shared, recorder, clock
        self._times = times or CoordinationTimes()
        self.state = CoordinationState()
        self._record: CoordinationRecord | None = None
        self._read_at = float("-inf")
        self._redis, self._redis_since = Redis.AWAY, clock.monotonic()
        self._trouble = "Redis was not asked yet"
        self._next = CoordinationRecord(CoordinationMode.PERMITS)
        self._reign = RedisEpoch("", "")
        self._since, self._floor = EVERYTHING, 0
        self._gate = asyncio.Lock()
        self._begun = self._done = 0
        self._trimming = Trimming(self._ledger, permits)

    @property
    def parts(self) -> Sequence[Part]:
        return [self]

    def stores(self) -> Mapping[str, Callable[[], bool]]:
        return {"redis": lambda: self._redis is not Redis.AWAY}

    async def begin(self) -> None:
        """Do nothing: the rounds of the part start it."""

    # -- who answers --------------------------------------------------------------------------

    async def run(self) -> None:
        await self._permits.synced.wait()
        while True:
            await self.round()
            await self._clock.sleep(self._times.round)

    async def round(self) -> None:
        """Observe the record and Redis once, and step as far as possible."""
        await self._read()
        await self._probe()
        done = False
        while True:
            after = step(self.state, self._observe(done), self._times)
            moved, self.state = after.phase is not self.state.phase, after
            if not moved and (done or not await self._act()):
                break
            done = not moved
        await self._keep_up()

    def _observe(self, done: bool = False) -> CoordinationObservation:
        now = self._clock.monotonic()
        return CoordinationObservation(
            now, self._term(), self._record, self._read_at, self._redis, self._redis_since, done
        )

    def _term(self) -> int | None:
        try:
            return self._fence.check()
        except LeaseLost:
            return None

    async def _read(self) -> None:
        requested_at = self._clock.monotonic()
        try:
            record = await self._recorder.read()
        except KubeError as error:
            log.info("who answers could not be read", extra={"why": str(error)})
            return
        self._know(record, requested_at)

    def _know(self, record: CoordinationRecord, requested_at: float) -> None:
        self._record, self._read_at = record, requested_at
        reign = RedisEpoch(record.epoch, record.replid)
        if record.mode is CoordinationMode.REDIS and reign != self._reign:
            self._reign, self._since, self._floor = reign, EVERYTHING, record.floor
            self._redis, self._redis_since = Redis.AWAY, self._clock.monotonic()  # until asked

    async def _probe(self) -> None:
        try:
            reign = (await self._log.probe(secrets.token_hex(4))).reign
        except (Away, Unfit) as error:
            self._lost(error)
            return
        record = self._record
        ours = record is not None and reign == RedisEpoch(record.epoch, record.replid)
        self._now_is(Redis.OURS if ours else Redis.STRANGE)

    def _now_is(self, redis: Redis) -> None:
        if redis is not self._redis:
            self._redis, self._redis_since = redis, self._clock.monotonic()

    def _lost(self, error: Away | Strange | Unfit | ValueError) -> None:
        if self._trouble != str(error):
            self._trouble = str(error)
            log.warning("Redis cannot be used", extra={"why": self._trouble})
        self._now_is(Redis.STRANGE if isinstance(error, Strange) else Redis.AWAY)

    # -- acts ---------------------------------------------------------------------------------

    async def _act(self) -> bool:
        """Carry out the act of the present phase. Return whether it succeeded."""
        phase, term = self.state.phase, self.state.term
        match phase:
            case Phase.CLAIM:
                return await self._write(CoordinationRecord(CoordinationMode.PERMITS, term))
            case Phase.LOAD:
                return await self._load()
            case Phase.BEGIN:
                return await self._begin_log()
            case Phase.PUBLISH:
                return await self._write(self._next)
            case _:
                return False

    async def _write(self, record: CoordinationRecord) -> bool:
        requested_at = self._clock.monotonic()
        try:
            await self._recorder.write(record)
        except KubeError as error:
            self._record = None  # it may have been written nevertheless
            log.warning("who answers could not be written", extra={"why": str(error)})
            return False
        self._know(record, requested_at)
        if record.mode is CoordinationMode.REDIS:
            self._now_is(Redis.OURS)
        log.info("who answers", extra={"mode": record.mode, "epoch": record.epoch})
        return True

    async def _load(self) -> bool:
        try:
            await self._store.load()
        except (KubeError, ValueError) as error:
            log.error("permits cannot be loaded, trying again", extra={"why": str(error)})
            return False
        return True

    async def _begin_log(self) -> bool:
        """Begin the log with what the Permits do not show yet. Every replica watches the rest."""
        entries = {
            permit.name: written(permit)
            for permit in self._ledger.open()
            if permit.unsure or not permit.status_written
        }
        floor = max((version(permit) for permit in self._ledger), default=0)
        try:
            reign = await self._log.begin(secrets.token_hex(8), floor, entries)
        except Away as error:
            self._lost(error)
            return False
        self._next = CoordinationRecord(
            CoordinationMode.REDIS, self.state.term, reign.epoch, reign.replid, floor
        )
        return True

    async def _keep_up(self) -> None:
        """Follow the log without requests as well. The leader removes old entries."""
        if self.answers() is not AnswerSource.REDIS:
            return
        try:
            await self.sync_ledger()
            old = self._trimming.due(self._clock.monotonic(), self._since)
            if old is not None and self._term() is not None:
                await self._log.trim(self._reign, old.floor, old.names)
                self._trimming.done(old)
        except NotInCharge:
            return
        except (Away, Strange) as error:
            self._lost(error)

    # -- the charge ---------------------------------------------------------------------------

    def answers(self) -> AnswerSource:
        return answers(self.state, self._observe(), self._times)

    def why_not(self) -> str:
        now = self.answers()
        if now is AnswerSource.PERMITS:
            return ""
        if now is AnswerSource.REDIS:
            behind = int(self._permits.resource_version or 0) < self._floor
            return "the permits are not up to date yet" if behind else ""
        record = self._record
        if self.state.phase is Phase.FOLLOW and record is not None:
            if record.mode is CoordinationMode.PERMITS:
                return "another Kube Defender answers alone: Redis cannot be used"
            if self._redis is not Redis.OURS:
                return f"Redis cannot be used: {self._trouble}"
        return WHY[self.state.phase]

    def alone(self) -> bool:
        return self.answers() is AnswerSource.PERMITS

    def mark(self) -> object:
        match self.answers():
            case AnswerSource.REDIS:
                return self._reign
            case AnswerSource.PERMITS:
                return self.state.term, self.state.since
            case AnswerSource.NOTHING:
                return None

    @asynccontextmanager
    async def gate(self) -> AsyncIterator[None]:
        async with self._gate:
            yield

    async def sync_ledger(self) -> None:
        self._in_charge()
        if self.answers() is not AnswerSource.REDIS:
            return
        wanted = self._begun + 1  # a sync that has already begun may lack the latest changes
        async with self._gate:
            if self._done < wanted:
                self._begun += 1
                mine = self._begun
                await self._sync()
                self._done = mine
        self._in_charge()

    async def _sync(self) -> None:
        """Apply the changes of the log. Raises NotInCharge."""
        try:
            self._apply(await self._log.sync(self._reign, self._since))
        except (Away, Strange) as error:
            self._lost(error)
            raise NotInCharge(str(error)) from error

    def _apply(self, changes: LogChanges) -> None:
        try:
            merge(self._ledger, changes, lambda name: self._permits.get(name) is not None)
        except ValueError as error:
            self._since = EVERYTHING
            self._lost(error)
            raise NotInCharge(f"an entry of Redis cannot be read: {error}") from error
        self._since, self._floor = changes.version, max(self._floor, changes.floor)
        self._trimming.record_changes(changes)

    async def take(self, permit: LedgerPermit) -> bool:
        """Take the permit. Call it within the gate, with no await since the judgement."""
        if (now := self.answers()) is not AnswerSource.REDIS:
            if now is AnswerSource.NOTHING:
                self._store.leave(permit)
                raise NotInCharge(self.why_not())
            permit.late = False
            return True
        before, late, permit.late = permit.take, permit.late, False
        text = written(permit)
        permit.late = late
        try:
            number, changes = await self._log.take(self._reign, self._since, {permit.name: text})
        except (Away, Strange) as error:
            self._leave(permit, before)
            self._lost(error)
            raise NotInCharge(str(error)) from error
        except asyncio.CancelledError:
            self._leave(permit, before)
            raise
        if not number:
            self._leave(permit, before)
            self._apply(changes)
            return False
        permit.take, permit.late = number, False
        self._apply(changes)
        return True

    def _leave(self, permit: LedgerPermit, before: int) -> None:
        if permit.take == before:
            self._store.leave(permit)

    async def confirm(self, permit: LedgerPermit, mark: object) -> None:
        try:
            self._in_charge()
            if self.mark() != mark:
                raise NotInCharge("who answers has changed meanwhile: ask again")
            if self.answers() is AnswerSource.REDIS:
                await self._confirm_in_log(permit)
                self._in_charge()
        except NotInCharge:
            permit.late = permit.late or not permit.status_written
            raise

    async def _confirm_in_log(self, permit: LedgerPermit) -> None:
        entry = LogEntry(permit.name, permit.take, written(permit))
        try:
            known = await self._log.put(self._reign, [entry], known=True)
        except (Away, Strange) as error:
            self._lost(error)
            raise NotInCharge(str(error)) from error
        if not known:
            raise NotInCharge("the permit came too late: ask again")

    async def tell(self, permit: LedgerPermit) -> None:
        if self.answers() is not AnswerSource.REDIS:
            return
        there = self._ledger.get(permit.name) is permit
        entry = LogEntry(permit.name, permit.take, written(permit) if there else "")
        try:
            await self._log.put(self._reign, [entry])
        except (Away, Strange) as error:
            self._lost(error)

    def _in_charge(self) -> None:
        if why := self.why_not():
            raise NotInCharge(why)
