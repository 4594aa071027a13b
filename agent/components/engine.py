"""Applies, checks and removes the components that this host's Machine assigns, one at a time.

A round reads the Machine's assignments and advances every component as far as possible, in order of
dependencies. Each step is a pure function (agent.components.step). The record is on disk before
each act. The engine shares one mutex, the hands, with repair jobs. It does not wait for a held
mutex, so that checks go on meanwhile.
"""

import asyncio
import logging
import random
from collections.abc import Callable

from msgspec.structs import replace

from agent.components.drift.watcher import DriftWatcher
from agent.components.health import Reach
from agent.components.library import ComponentProblem, Library
from agent.components.model import (
    MOVING,
    ComponentApplyState,
    ComponentMove,
    ComponentRecord,
    MoveResult,
    StoredComponent,
)
from agent.components.moves import Moves
from agent.components.observations import HostObservations
from agent.components.observer import NOTHING_YET, DesiredComponents, Eyes
from agent.components.permits import LivePermits, PermitReadiness
from agent.components.ports import ComponentPorts
from agent.components.records import Records
from agent.components.status import discreet, status_of
from agent.components.step import ComponentAct, disturbs, interrupted, repairing, step, taken_up
from agent.host import Host, HostError, HostUnreachable
from agent.patience import AT_ONCE, Waits
from agent.probes import CannotAnswer
from kubenode.runtime.clock import Clock, wait
from kubenode.runtime.components.wire import Assigned, WireComponentStatus, WireMachine
from kubenode.runtime.kube.errors import KubeError
from kubenode.runtime.rate import Spread

log = logging.getLogger(__name__)

RETRY_SECONDS = 15.0
"""Delay before a retry of what failed: a download, a read, a move with an unknown result."""
PROBLEM_SECONDS = 60.0
BUSY_SECONDS = 1.0
CORRECT_SECONDS = 10.0
REBOOT_SECONDS = 120.0
"""Delay before the engine orders the reboot again, if the host did not go down."""
LONGEST_SECONDS = 600.0
DISK_SECONDS = 20.0
MOST_STEPS = 64
"""Bound on steps of one component in one round; the longest change needs fewer."""
MOST_UNKNOWN = 8


class ComponentEngine:
    """Part: runs the components of one host.

    library: reads the components that the Machine assigns
    hands: mutex that is held by whatever acts on the host
    busy: returns the reason why the agent must not act by itself now; "" if it may
    permits: checks that an act that disturbs the host has a valid permit
    tell: receives the statuses of all components
    patience: runs reads and writes of `records` with a timeout
    """

    name = "components"

    def __init__(
        self,
        ports: ComponentPorts,
        reach: Reach,
        records: Records,
        library: Library,
        host: Host,
        clock: Clock,
        hands: asyncio.Lock,
        busy: Callable[[], str],
        permits: LivePermits,
        tell: Callable[[list[WireComponentStatus]], None],
        *,
        patience: Waits = AT_ONCE,
        spread: Spread = random.random,
    ) -> None:
        self._records_on_disk, self._library, self._host = records, library, host
        self._clock, self._hands, self._busy, self._tell = clock, hands, busy, tell
        self._patience, self._spread, self._permits = patience, spread, permits
        self._repaired: set[str] = set()
        self._moves, self._observed = Moves(ports), HostObservations(ports, reach, clock)
        self._eyes = Eyes(self._observed)
        self._watcher = DriftWatcher(ports.watch, self._news, clock, spread=spread)
        self._machine: WireMachine | None = None
        self._gone = False
        self._wanted = NOTHING_YET
        self._records: dict[str, ComponentRecord] = {}
        self._read: dict[str, tuple[Assigned, StoredComponent | ComponentProblem]] = {}
        self._done: dict[str, MoveResult] = {}
        self._unknown: dict[str, int] = {}
        self._not_before: dict[tuple[str, ComponentAct | str], float] = {}
        self._downloading = ""
        self._wake, self._recovered = asyncio.Event(), asyncio.Event()

    # -- interface --------------------------------------------------------------------------------

    def observe_machine(self, machine: WireMachine | None) -> None:
        """Take the newest state of the agent's own Machine; None if it was deleted. Never
        blocks.
        """
        self._machine, self._gone = machine, machine is None
        self._wake.set()

    def record(self, name: str) -> ComponentRecord | None:
        return self._records.get(name)

    async def repairable(self, name: str) -> bool:
        """Return whether component `name` can be repaired. Waits until earlier records are
        loaded.
        """
        await self._recovered.wait()
        record = self._records.get(name)
        return record is not None and repairing(record) is not None

    async def repair(self, name: str, limit: float) -> str:
        """Bring a component back to what is applied. The caller holds the hands and the permit.

        Return "" once the component is healthy, else what is wrong after at most `limit` seconds.
        """
        record = self._records.get(name)
        begun = repairing(record) if record is not None else None
        if record is None or begun is None:
            return f"component {name} is {record.state if record else 'not known'} on this host"
        self._repaired.add(name)
        try:
            return await self._repair(name, begun, limit)
        finally:
            self._repaired.discard(name)

    async def _repair(self, name: str, begun: ComponentRecord, limit: float) -> str:
        end = self._clock.monotonic() + limit
        await self._save(begun)
        while True:
            await self._advance(name, has_hands=True)
            record = self._records[name]
            if record.state not in MOVING and record.state is not ComponentApplyState.VERIFYING:
                break
            if self._clock.monotonic() >= end:
                return f"component {name} is still {record.state}: {self._observed.health(name)[1]}"
            await self._clock.sleep(BUSY_SECONDS)
        if record.state is ComponentApplyState.HEALTHY:
            return ""
        return f"component {name} is {record.state}: {discreet(record.message, record)}"

    # -- loop -------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Raises CannotAnswer or OSError if the records of an earlier process cannot be read."""
        await self.recover()
        async with asyncio.TaskGroup() as self._tasks:
            self._tasks.create_task(self._watcher.run())
            while True:
                self._wake.clear()
                seconds = await self.round()
                await wait(self._clock, self._wake, seconds)

    async def recover(self) -> None:
        """Load the records at start and take up the changes that an earlier process left
        unfinished.
        """
        loaded = await self._patience.wait_for(
            self._records_on_disk.load, DISK_SECONDS, "records of components"
        )
        self._records = loaded
        for record in list(loaded.values()):
            if (again := taken_up(record)) != record:
                log.warning("a component was interrupted", extra=_log_fields(again))
                await self._save(again)
        self._observed.follow(self._records.values())
        self._recovered.set()

    async def round(self) -> float:
        """Advance every component as far as possible; return the seconds until the next round is
        due.
        """
        try:
            await self._read_machine()
            names = dict.fromkeys((*self._wanted.order, *self._records))
            moved = [await self._advance(name) for name in names]
            if not any(moved):
                await self._reboot()
        except (OSError, CannotAnswer) as error:
            log.error("components wait for the disk", extra={"error": str(error)})
            return RETRY_SECONDS
        self._tell_all()
        return 0.0 if any(moved) else self._pause()

    def _pause(self) -> float:
        now = self._clock.monotonic()
        self._not_before = {key: at for key, at in self._not_before.items() if at > now}
        due = min([self._observed.due(), *self._not_before.values()], default=now + LONGEST_SECONDS)
        return min(max(due - now, 0.05), LONGEST_SECONDS)

    async def _advance(self, name: str, *, has_hands: bool = False) -> bool:
        """Return whether the component's state changed. has_hands: the caller holds the hands."""
        before = self._records.get(name)
        for _ in range(MOST_STEPS):
            if not await self._step_component(name, has_hands=has_hands):
                break
        return self._records.get(name) != before

    async def _step_component(self, name: str, *, has_hands: bool) -> bool:
        """Make one state change or one act; return whether another step may follow at once."""
        record = self._records.get(name) or ComponentRecord(name=name)
        done = self._done.pop(name, None)
        boot_id, now = self._host.boot_id(), self._clock.now()
        observation = await self._eyes.see(record, self._records, self._wanted, done, boot_id, now)
        if (self._records.get(name) or ComponentRecord(name=name)) != record:
            return True  # a repair changed the record meanwhile: observe again
        after, act = step(record, observation)
        if after != record:
            await self._save(after)
            return True
        match act:
            case ComponentAct.NONE | ComponentAct.REBOOT:
                return False
            case ComponentAct.FORGET:
                return await self._forget(name)
            case ComponentAct.STAGE:
                return self._stage(record, observation.target)
            case ComponentAct.MOVE | ComponentAct.START | ComponentAct.CORRECT:
                return await self._act(record, act, has_hands=has_hands)

    async def _save(self, record: ComponentRecord) -> None:
        """Write the record to disk. Raises OSError or CannotAnswer: then nothing has begun."""
        save = self._records_on_disk.save
        await self._patience.wait_for(lambda: save(record), DISK_SECONDS, "records of components")
        old = self._records.get(record.name)
        self._records[record.name] = record
        if old is None or old.state is not record.state:
            log.info("component", extra=_log_fields(record))
            if record.state is ComponentApplyState.VERIFYING:
                self._observed.unchecked(record.name)
                self._observed.stale(record.name)
        if old is None or old.applied is not record.applied:
            self._observed.follow(self._records.values())

    async def _forget(self, name: str) -> bool:
        if name in self._records:
            drop = self._records_on_disk.drop
            await self._patience.wait_for(lambda: drop(name), DISK_SECONDS, "records of components")
            del self._records[name]
        self._eyes.forget(name)
        self._observed.follow(self._records.values())
        return False

    # -- actions ----------------------------------------------------------------------------------

    def _stage(self, record: ComponentRecord, target: StoredComponent | None) -> bool:
        """Start a download in the background, one at a time. Always returns False."""
        if self._downloading or target is None or self._early(record.name, ComponentAct.STAGE):
            return False
        self._downloading = record.name
        self._tasks.create_task(self._download(record, target))
        return False

    async def _download(self, record: ComponentRecord, target: StoredComponent) -> None:
        try:
            done = await self._moves.stage(record, target)
        except HostError as error:
            done = MoveResult(str(error))
        finally:
            self._downloading = ""
        if done.text:
            self._delay(record.name, ComponentAct.STAGE, RETRY_SECONDS)
        self._done[record.name] = done
        self._wake.set()

    async def _act(self, record: ComponentRecord, act: ComponentAct, *, has_hands: bool) -> bool:
        if self._early(record.name, act):
            return False
        if has_hands:
            return await self._touch(record, act)
        if self._hands.locked() or (act is not ComponentAct.MOVE and self._busy()):
            self._delay(record.name, "hands", BUSY_SECONDS)
            return False
        async with self._hands:
            go_on = await self._touch(record, act)
            while go_on and self._moving(record.name):
                go_on = await self._step_component(record.name, has_hands=True)
        return go_on

    def _moving(self, name: str) -> bool:
        """Return whether a change is under way that a repair must not interrupt between two
        moves.
        """
        record = self._records.get(name)
        return (
            record is not None and record.state in MOVING and record.at is not ComponentMove.REBOOT
        )

    async def _touch(self, record: ComponentRecord, act: ComponentAct) -> bool:
        name = record.name
        if act is ComponentAct.MOVE and disturbs(record) and not await self._may_disturb(record):
            return False
        try:
            if act is ComponentAct.MOVE:
                self._done[name] = await self._moves.do(record)
            else:
                await self._put_right(record)
            self._unknown.pop(name, None)
        except HostUnreachable as error:
            self._unknown[name] = self._unknown.get(name, 0) + 1
            if self._unknown[name] < MOST_UNKNOWN:
                self._delay(name, act, RETRY_SECONDS)
                return False
            self._done[name] = MoveResult(str(error))
        self._observed.stale(name)
        return act is ComponentAct.MOVE

    async def _may_disturb(self, record: ComponentRecord) -> bool:
        """Return whether the record's next act may begin now. Without a permit, request one again.

        A repair runs under the permit of its job, whose request was read live.
        """
        if record.name in self._repaired:
            return True
        permit = await self._permits.check(record.name, record.how)
        if permit.state is PermitReadiness.LIVE:
            return True
        extra = {"component": record.name, "at": str(record.at), "why": permit.why}
        if permit.state is PermitReadiness.MISSING:
            log.warning("a change is interrupted", extra=extra)
            await self._save(interrupted(record))
            self.observe_machine(permit.machine)
        else:
            log.warning("a change waits in its middle", extra=extra)
            self._delay(record.name, ComponentAct.MOVE, RETRY_SECONDS)
        return False

    async def _put_right(self, record: ComponentRecord) -> None:
        """Correct drift. The attempt is counted before it runs, so that it is not repeated for
        ever.
        """
        fights, now = record.fights, self._clock.now()
        fallen = self._eyes.lapses.get(record.name)
        for kind, path in fallen.paths if fallen is not None else ():
            fights = fights.corrected_now(kind, path, now)
        await self._save(replace(record, fights=fights))
        self._delay(record.name, ComponentAct.START, CORRECT_SECONDS)
        self._delay(record.name, ComponentAct.CORRECT, CORRECT_SECONDS)
        done = await self._moves.correct(record)
        extra = {"component": record.name, "differed": fallen.differs if fallen else ""}
        if done.text:
            log.warning("not put right", extra={**extra, "error": discreet(done.text, record)})
        else:
            log.info("put right", extra=extra)

    async def _reboot(self) -> None:
        """Reboot the host once all changes that wait for a reboot are ready and none is in
        progress.
        """
        waiting = [
            r.name
            for r in self._records.values()
            if r.at is ComponentMove.REBOOT and r.boot_id and not r.interrupted
        ]
        moving = [name for name in self._records if self._moving(name)]
        if not waiting or moving or self._hands.locked() or self._early("", ComponentAct.REBOOT):
            return
        if self._host.boot_id() != self._records[waiting[0]].boot_id:
            return
        async with self._hands:
            allowed = [await self._may_disturb(self._records[name]) for name in waiting]
            if not all(allowed):
                self._delay("", ComponentAct.REBOOT, RETRY_SECONDS)
                return
            self._delay("", ComponentAct.REBOOT, REBOOT_SECONDS)
            log.warning("rebooting for components", extra={"components": ", ".join(waiting)})
            self._tell_all()
            try:
                await self._host.reboot()
            except HostError as error:
                log.error("the host does not reboot", extra={"error": str(error)})

    def _delay(self, name: str, act: ComponentAct | str, seconds: float) -> None:
        self._not_before[name, act] = self._clock.monotonic() + seconds

    def _early(self, name: str, act: ComponentAct | str) -> bool:
        return self._clock.monotonic() < self._not_before.get((name, act), float("-inf"))

    # -- the Machine ------------------------------------------------------------------------------

    async def _read_machine(self) -> None:
        machine = self._machine
        if machine is None:
            # A deleted Machine assigns nothing, and its host stays as it is.
            self._wanted = DesiredComponents(None, {}, {}, None, observe=self._gone)
            return
        assigned = {assignment.name: assignment for assignment in machine.spec.components}
        self._read = {name: read for name, read in self._read.items() if name in assigned}
        for assignment in assigned.values():
            await self._read_component(assignment, machine)
        stored = {
            name: read
            for name, (_, read) in self._read.items()
            if isinstance(read, StoredComponent)
        }
        problems = {
            name: (read.reason, read.message)
            for name, (_, read) in self._read.items()
            if isinstance(read, ComponentProblem)
        }
        self._wanted = DesiredComponents(
            assigned,
            stored,
            problems,
            machine.spec.permit,
            observe=machine.spec.mode != "Manage",
            leaving=machine.metadata.deletion_timestamp is not None,
        )
        for name in assigned:
            if name not in self._records:
                self._records[name] = ComponentRecord(name=name)

    async def _read_component(self, wanted: Assigned, machine: WireMachine) -> None:
        """Read an assigned component once per revision. A problem is read again after a delay."""
        name, known = wanted.name, self._read.get(wanted.name)
        same = known is not None and _asks_the_same(known[0], wanted)
        if same and known is not None and isinstance(known[1], StoredComponent):
            return
        if same and self._early(name, "read"):
            return
        if not same:
            self._read.pop(name, None)
            self._library.forget(wanted.component)
        record = self._records.get(name) or ComponentRecord(name=name)
        try:
            self._read[name] = (wanted, await self._library.load_component(wanted, machine, record))
        except ComponentProblem as problem:
            self._read[name] = (wanted, problem)
            self._delay(name, "read", PROBLEM_SECONDS * (0.75 + 0.5 * self._spread()))
        except KubeError as error:
            log.warning("a component is not read", extra={"component": name, "error": str(error)})
            self._delay(name, "read", max(RETRY_SECONDS, error.retry_after or 0.0))

    async def _news(self, changed: set[str]) -> None:
        self._observed.news(changed, self._records.values())
        self._wake.set()

    # -- reports ----------------------------------------------------------------------------------

    def _tell_all(self) -> None:
        if self._wanted.assigned is None:
            return
        self._tell(
            [self._status(r) for n, r in self._records.items() if n in self._wanted.assigned]
        )

    def _status(self, record: ComponentRecord) -> WireComponentStatus:
        name = record.name
        known_state = self._observed.known(name)
        drift = self._eyes.drift.get(name, []) if record.state not in MOVING else []
        now = self._clock.now().replace(microsecond=0)
        since = {key: at.replace(microsecond=0) for key, at in self._observed.since(name).items()}
        return status_of(record, known_state, drift, since, now)


def _asks_the_same(old: Assigned, new: Assigned) -> bool:
    """Return whether two assignments are equal except for batch and set, which do not change the
    host.
    """
    return replace(old, batch=0, set="") == replace(new, batch=0, set="")


def _log_fields(record: ComponentRecord) -> dict[str, object]:
    return {
        "component": record.name,
        "revision": record.revision,
        "attempt": record.attempt,
        "state": record.state.value,
        "reason": record.reason,
        "why": discreet(record.message, record),
    }
