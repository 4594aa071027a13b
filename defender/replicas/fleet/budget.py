"""One budget for several clusters, through a log for each group in a common Redis.

Every write that claims more is a take, which succeeds only if all claims of others were seen. Once
a second the holder of the lease reports what this cluster has (`beat`) and corrects what a crashed
process left. What must outlive Redis is stored on the API server before it is used: the reserves of
this cluster, and the list of clusters.
"""

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from defender.decision.control import RiskControl
from defender.decision.fleet_view import (
    ClusterRow,
    FleetGroup,
    FleetView,
    LastClaims,
    Share,
    StoredFleet,
)
from defender.decision.ledger import LedgerPermit
from defender.replicas.charge.charge import Charge, NotInCharge
from defender.replicas.charge.note import NoteStore
from defender.replicas.fleet import beat, wire
from defender.replicas.fleet.departure import (
    Answered,
    Departure,
    Tell,
    erasure,
    is_remembered,
    objection,
    read_departure,
)
from defender.replicas.fleet.silence import BEAT, Beats
from defender.replicas.redis.log import (
    Away,
    LogChanges,
    LogEntry,
    RedisEpoch,
    SharedLog,
    Strange,
    Unfit,
)
from defender.server.store import UNCLEAR
from kubenode.runtime.clock import Clock
from kubenode.runtime.fence import Fence, LeaseLost
from kubenode.runtime.kube.errors import KubeError
from kubenode.runtime.process import Part

log = logging.getLogger(__name__)

NAME, ANNOTATION = "kubenode-defender-fleet", "kubenode.io/fleet"
EVERY_SECONDS = 1.0
DEPARTURES_SECONDS = 10.0
"""Interval of checks for requests to remove a cluster."""
EVERYTHING = -1
TRIES = 5
MOST_VOID = 200
"""Number of undone entries above which they are removed."""


class Sharing(Protocol):
    """What a grant needs of the fleet."""

    @property
    def parts(self) -> Sequence[Part]: ...

    async def take(self, permit: LedgerPermit) -> bool:
        """Return whether the permit, which was just entered, is taken in every group in which it
        counts.

        Raises NotInCharge if that is unknown.
        """
        ...

    async def drop(self, permit: LedgerPermit) -> None:
        """Undo `take`, because the permit is not granted after all."""
        ...

    on_departure: Tell
    """Called with the outcome of a request to remove a cluster."""


MakeFleet = Callable[[RiskControl, Charge, Fence], Sharing]


class NoFleet:
    """Implementation without a Redis. Policies with a Fleet limit are then not enforceable."""

    parts: Sequence[Part] = ()

    def __init__(self) -> None:
        self.on_departure: Tell = lambda answered: None

    async def take(self, permit: LedgerPermit) -> bool:
        return True

    async def drop(self, permit: LedgerPermit) -> None:
        return


@dataclass(slots=True)
class _Log:
    """One group's log, as far as this process has followed it."""

    log: SharedLog
    reign: RedisEpoch | None = None
    since: int = EVERYTHING
    takes: dict[str, int] = field(default_factory=dict)
    """By entry, the number of its last take."""
    odd: dict[str, datetime] = field(default_factory=dict)
    """Shares of this cluster that the ledger does not have, with the time since which."""
    void: dict[str, int] = field(default_factory=dict)
    """Undone entries of this cluster, with a version since which they have not changed."""
    beats: Beats = field(default_factory=Beats)
    beat_at: float = float("-inf")
    """Monotonic time of our last beat."""


class FleetSharing:
    """Implementation of Sharing, and a part for every replica.

    make: returns the log of a group.
    me: name of this cluster, unique in the fleet.
    """

    name = "defender fleet"

    def __init__(
        self,
        control: RiskControl,
        charge: Charge,
        fence: Fence,
        clock: Clock,
        note: NoteStore,
        make: Callable[[str], SharedLog],
        me: str,
        departures: NoteStore | None = None,
    ) -> None:
        self._control, self._charge, self._fence, self._clock = control, charge, fence, clock
        self._note, self._make, self._me = note, make, me
        self._logs: dict[str, _Log] = {}
        self._known: dict[str, StoredFleet] | None = None
        self._known_for: int | None = None
        self._stored_text = ""
        self._departures, self._departures_read = departures, float("-inf")
        self.on_departure: Tell = lambda answered: None
        self.view = control.fleet = FleetView(charge.alone)

    @property
    def parts(self) -> Sequence[Part]:
        return [self]

    async def run(self) -> None:
        while True:
            await self.round()
            await self._clock.sleep(EVERY_SECONDS)

    async def round(self) -> None:
        """Follow the groups of all policies, and report our state if we are in charge."""
        wanted = beat.groups_of(self._control)
        for name in self.view.groups.keys() - wanted:
            del self.view.groups[name], self._logs[name]
        keeps = await self._keeps_the_record()
        for name in sorted(wanted):
            group = self.view.groups.setdefault(name, FleetGroup(self._me))
            followed = self._logs.setdefault(name, _Log(self._make(name)))
            if self._known is not None:
                group.known = self._known.setdefault(name, StoredFleet())
            try:
                await self._follow(group, followed, begin=keeps)
                if keeps and followed.reign is not None:
                    await self._tell(name, group, followed)
            except (Away, Strange, Unfit, ValueError) as error:
                self._lost(group, followed, error)
        if keeps:
            await self._forget()

    # -- clusters that left -------------------------------------------------------------------

    async def _forget(self) -> None:
        """Process a person's request to remove a cluster. It is retried while a group is
        unreachable.
        """
        now = self._clock.monotonic()
        if self._departures is None or now < self._departures_read + DEPARTURES_SECONDS:
            return
        self._departures_read = now
        try:
            departure = read_departure(await self._departures.read())
            if departure is None:
                return
            refused = await self._forget_in_all(departure)
            self._fence.check()
            await self._departures.write("")
        except (KubeError, LeaseLost, Away, Strange, ValueError) as error:
            log.warning("a cluster could not be forgotten yet", extra={"why": str(error)})
            return
        extra = {"cluster": departure.cluster, "by": departure.by, "why": departure.why}
        log.warning("a cluster was asked to be forgotten", extra=extra | {"refused": refused})
        self.on_departure(Answered(departure, refused))

    async def _forget_in_all(self, departure: Departure) -> str:
        """Remove the cluster from all groups. Return why not, "" if it is done.

        Raises Away while a group is unreachable, Strange, and ValueError.
        """
        groups = {n: g for n, g in self.view.groups.items() if is_remembered(departure.cluster, g)}
        if not groups:
            return f"no group remembers cluster {departure.cluster}"
        for group in groups.values():
            if not group.online:
                raise Away(group.why)
            if why := objection(departure, group):
                return why
        for name, group in groups.items():
            followed = self._logs[name]
            assert followed.reign is not None
            entries = erasure(departure, group)
            number, changes = await followed.log.take(followed.reign, followed.since, entries)
            self._apply(group, followed, changes)
            if not number:
                raise Away("others took something meanwhile")
        return ""

    async def _keeps_the_record(self) -> bool:
        """Return whether we are in charge, hold the lease, and have read what is stored."""
        try:
            term = self._fence.check()
        except LeaseLost:
            self._known = self._known_for = None
            return False
        if self._charge.why_not():
            return False
        if self._known_for == term:
            return True
        try:
            self._stored_text = await self._note.read()
            self._known = wire.read_known(self._stored_text)
        except (KubeError, ValueError) as error:
            log.warning("what is kept of the fleet cannot be read", extra={"why": str(error)})
            return False
        self._known_for = term
        return True

    # -- following ----------------------------------------------------------------------------

    async def _follow(self, group: FleetGroup, followed: _Log, *, begin: bool) -> None:
        """Read the changes of the log. Raises Away, Strange, Unfit and ValueError."""
        if followed.reign is None:
            followed.reign = await self._reign(followed.log, begin=begin)
            followed.since = EVERYTHING
        if followed.reign is None:
            group.online, group.why = False, "no cluster has begun the fleet's store yet"
            return
        self._apply(group, followed, await followed.log.sync(followed.reign, followed.since))
        group.online = True
        before = group.silent
        group.silent = followed.beats.observe_rows(group.rows, self._me, self._clock.monotonic())
        for name in sorted(group.silent - before):
            log.warning("a cluster of the fleet is silent", extra={"cluster": name})

    async def _reign(self, shared: SharedLog, *, begin: bool) -> RedisEpoch | None:
        """Return the reign of the log. If it may have lost entries, one replica begins it anew;
        else None.
        """
        probed = await shared.probe(secrets.token_hex(4))
        if probed.reign.epoch and probed.began == probed.reign.replid:
            return probed.reign
        if not begin:
            return None
        made = await shared.begin(secrets.token_hex(8), 0, {}, instead=probed.reign.epoch)
        return made if made.replid else None

    def _apply(self, group: FleetGroup, followed: _Log, changes: LogChanges) -> None:
        if changes.full:
            group.rows, group.shares, group.forgotten = {}, {}, frozenset()
            followed.takes.clear()
            followed.void.clear()
        for entry in changes.entries:
            followed.takes[entry.name] = entry.take
            followed.void.pop(entry.name, None)
            if not entry.text and entry.name.startswith(wire.share_name(self._me, "")):
                followed.void[entry.name] = changes.version
            _put(group, entry)
        followed.since = changes.version

    def _lost(self, group: FleetGroup, followed: _Log, error: Exception) -> None:
        if group.online:
            log.warning("the fleet cannot be seen", extra={"why": str(error)})
        group.online, group.why = False, str(error)
        followed.reign = None
        followed.beats = Beats()

    # -- a grant ------------------------------------------------------------------------------

    async def take(self, permit: LedgerPermit) -> bool:
        """Take the permit. Call it with no await since the judgement, so that what was judged still
        holds.
        """
        named = {bound.limit.group or "" for bound in beat.fleet_bounds(self._control, permit.node)}
        judged = [(name, self._logs[name].since) for name in sorted(named) if name in self._logs]
        share = beat.share_of_permit(self._control, permit)
        for name, since in judged:
            group, followed = self.view.groups[name], self._logs[name]
            if not group.online and self.view.alone():
                continue  # covered by our reserve, which all others count
            if not await self._claim(group, followed, since, permit.name, share):
                await self.drop(permit)
                return False
        return True

    async def _claim(
        self, group: FleetGroup, followed: _Log, since: int, permit: str, share: Share
    ) -> bool:
        """Take the share in one group. Raises NotInCharge."""
        if followed.reign is None:
            raise NotInCharge(f"the fleet's store cannot be used: {group.why}")
        name = wire.share_name(self._me, permit)
        entries = {name: wire.share_text(share)}
        try:
            number, changes = await followed.log.take(followed.reign, since, entries)
            if followed.since <= since:
                self._apply(group, followed, changes)
        except (Away, Strange, ValueError) as error:
            self._lost(group, followed, error)
            raise NotInCharge(f"the fleet's store cannot be used: {error}") from error
        return bool(number)

    async def drop(self, permit: LedgerPermit) -> None:
        for name, followed in self._logs.items():
            entry = wire.share_name(self._me, permit.name)
            if followed.reign is None or entry not in followed.takes:
                continue
            try:
                await followed.log.put(followed.reign, [LogEntry(entry, followed.takes[entry], "")])
            except (Away, Strange) as error:
                self._lost(self.view.groups[name], followed, error)

    # -- telling ------------------------------------------------------------------------------

    async def _tell(self, name: str, group: FleetGroup, followed: _Log) -> None:
        """Report the state of this cluster. Raises Away, Strange and ValueError."""
        for _ in range(TRIES):
            mine = beat.shares(self._control, name, self._clock.now())
            if not await self._remember(name, group):
                return
            row = beat.row(self._control, name, group.known, mine)
            more = beat.wanted_reserves(self._control, group, name, row.members)
            own_row = group.rows.get(self._me)
            own_beat = own_row.beat if own_row is not None else None
            row = replace(row, reserves=_greater(group.known.reserves, more), beat=own_beat or 0)
            entries = self._differing(group, followed, row, mine)
            if entries:
                assert followed.reign is not None
                number, changes = await followed.log.take(followed.reign, followed.since, entries)
                self._apply(group, followed, changes)
                if not number:
                    continue
            group.known.reserves = more
            await self._keep()
            await self._beat(group, followed)
            await self._trim(followed)
            return

    async def _beat(self, group: FleetGroup, followed: _Log) -> None:
        """Show that this cluster is alive. It is no take, so that no judgement must be repeated."""
        now, row = self._clock.monotonic(), group.rows.get(self._me)
        name = wire.row_name(self._me)
        if row is None or followed.reign is None or now < followed.beat_at + BEAT:
            return
        text = wire.row_text(replace(row, beat=(row.beat or 0) + 1))
        await followed.log.put(followed.reign, [LogEntry(name, followed.takes[name], text)])
        followed.beat_at = now

    async def _trim(self, followed: _Log) -> None:
        if len(followed.void) > MOST_VOID and followed.reign is not None:
            await followed.log.trim(followed.reign, 0, followed.void)
            for name in followed.void:
                followed.takes.pop(name, None)
            followed.void.clear()

    async def _remember(self, name: str, group: FleetGroup) -> bool:
        """Store smaller reserves and new clusters before they are used. Return whether that
        succeeded.
        """
        roster = group.roster()
        members = beat.row(self._control, name, group.known, {}).members
        wanted = beat.wanted_reserves(self._control, group, name, members)
        less = {k: min(n, wanted.get(k, 0)) for k, n in group.known.reserves.items()}
        total = group.known.total if group.missing() else group.total
        silent, forgotten = self._last_claims(group), group.gone
        reserves = {k: n for k, n in less.items() if n}
        now = StoredFleet(reserves, roster, total, silent, forgotten)
        if now == group.known:
            return True
        group.known.reserves, group.known.roster = now.reserves, now.roster
        group.known.total, group.known.silent = now.total, now.silent
        group.known.forgotten = now.forgotten
        return await self._keep()

    def _last_claims(self, group: FleetGroup) -> dict[str, LastClaims]:
        """Return the claims of silent clusters, and of those that Redis has lost since."""
        claims = group.last_claims()
        for name in group.silent & group.rows.keys():
            shares = {permit: s for (of, permit), s in group.shares.items() if of == name}
            claims[name] = LastClaims(group.rows[name], shares)
        return claims

    async def _keep(self) -> bool:
        """Store what is known on the API server. Return whether it is stored."""
        assert self._known is not None
        text = wire.known_text(self._known)
        if text == self._stored_text:
            return True
        try:
            self._fence.check()
            await self._note.write(text)
        except (KubeError, LeaseLost) as error:
            log.warning("what is kept of the fleet cannot be written", extra={"why": str(error)})
            self._known = self._known_for = None  # read again what is there
            return False
        self._stored_text = text
        return True

    def _differing(
        self, group: FleetGroup, followed: _Log, row: ClusterRow, mine: Mapping[str, Share]
    ) -> dict[str, str]:
        """Return the entries that must be written so that the log shows our state."""
        entries: dict[str, str] = {}
        for name in (group.forgotten & group.rows.keys()) | (group.forgotten & {self._me}):
            entries[wire.forgotten_name(name)] = ""  # it came back
        remembered = {name for each in group.rows.values() for name in each.roster}
        for name in (group.known.forgotten & remembered) - group.forgotten - group.rows.keys():
            entries[wire.forgotten_name(name)] = "{}"
        if group.rows.get(self._me) != row:
            entries[wire.row_name(self._me)] = wire.row_text(row)
        logged = {permit: s for (of, permit), s in group.shares.items() if of == self._me}
        for permit, share in mine.items():
            if permit not in logged or replace(logged[permit], healthy=share.healthy) != share:
                entries[wire.share_name(self._me, permit)] = wire.share_text(share)
        for permit in self._list_released(logged.keys() - mine.keys(), followed):
            entries[wire.share_name(self._me, permit)] = ""
        return entries

    def _list_released(self, others: set[str], followed: _Log) -> list[str]:
        """Return shares that were released, or that no ledger has had for so long that no Permit
        can appear.
        """
        now, ledger = self._clock.now(), self._control.ledger
        unknown = {permit for permit in others if ledger.get(permit) is None}
        followed.odd = {permit: followed.odd.get(permit, now) for permit in unknown}
        never = [permit for permit, since in followed.odd.items() if now > since + UNCLEAR]
        return sorted((others - unknown) | set(never))


def _put(group: FleetGroup, entry: LogEntry) -> None:
    """Apply an entry. Raises ValueError for an unreadable one."""
    kind, cluster, *permit = entry.name.split("/", 2)
    if kind == "c" and entry.text:
        group.rows[cluster] = wire.read_row(entry.text)
    elif kind == "c":
        group.rows.pop(cluster, None)
    elif kind == "f":
        group.forgotten = group.forgotten - {cluster} | ({cluster} if entry.text else set())
    elif kind == "p" and entry.text:
        group.shares[cluster, permit[0]] = wire.read_share(entry.text)
    elif kind == "p":
        group.shares.pop((cluster, permit[0]), None)


def _greater(first: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    keys = first.keys() | other.keys()
    greatest = {key: max(first.get(key, 0), other.get(key, 0)) for key in sorted(keys)}
    return {key: n for key, n in greatest.items() if n}
