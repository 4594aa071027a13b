"""Storage of permits: Permit objects on the API server, and the ledger in memory.

A permit enters the ledger before it is written, and leaves it after its release was written. So the
ledger never counts fewer than the server holds. A write that failed for certain is undone at once.
After a write with unclear outcome (no answer, 5xx, cancelled) the permit is read back, and counts
until its absence is certain: the server may carry out a request late, but not later than UNCLEAR
after it was sent.

A status is only written by a replica in charge that knows the permit. So a permit that appears
without a status, and that no replica in charge took, is *late*: it counts, but is not valid until
it is judged again.
"""

import contextlib
import logging
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import msgspec

from defender.decision.ledger import LedgerPermit, PermitLedger, grants_of, load_permit
from defender.decision.permit_reader import UNREADABLE, read_permit
from kubenode.api.conditions import ConditionUpdate, set_condition
from kubenode.api.meta import ObjectMeta, format_time
from kubenode.api.v1alpha1 import Ask, Permit
from kubenode.api.v1alpha1.permit import PermitSpec, PermitState
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists, Conflict, KubeError, NotFound

log = logging.getLogger(__name__)

LIFE = timedelta(minutes=15)
"""Time from a grant or renewal until the holder of the permit is checked."""
UNCLEAR = timedelta(seconds=90)
"""Time after which a request is not carried out any more.

The API server ends a request after 60 s (--request-timeout); the rest covers the transmission.
"""
PERMITS = paths.custom(Permit.resource.plural)


class NotWritten(Exception):
    """A write failed, or its outcome is unknown. The message says why.

    absent: a later read showed that the change was not there.
    """

    def __init__(self, why: str, *, absent: bool = False) -> None:
        super().__init__(why)
        self.absent = absent


class PermitStore:
    """Storage of permits.

    life: time from a grant or renewal until the holder of the permit is checked.
    """

    def __init__(
        self, kube: Kube, clock: Clock, ledger: PermitLedger, life: timedelta = LIFE
    ) -> None:
        self.ledger = ledger
        self.ready = False
        """Whether the ledger has all permits of the server. Before that nothing may be granted."""
        self.life = life
        self._kube = kube
        self._clock = clock
        self._superseded: set[str] = set()
        """Permits known from before a restore of etcd, until they are listed again."""
        self._sent: dict[str, datetime] = {}
        """By permit, when the last write with unclear outcome was sent."""

    # -- reading ------------------------------------------------------------------------------

    async def load(self) -> None:
        """Fill the ledger from the server. Raises KubeError.

        An unreadable Permit counts as all that it may be: it blocks its node, and nothing else.
        """
        listed = await self._kube.get(PERMITS)
        permits = [read_permit(msgspec.json.encode(each)) for each in listed["items"]]
        there = {permit.metadata.name for permit in permits}
        for entry in self.ledger:
            if entry.name not in there and not entry.unsure:
                self.ledger.forget(entry.name)
        for permit in permits:
            self.apply(permit)
            if loaded := self.ledger.get(permit.metadata.name):
                loaded.late = False  # it existed before this replica granted anything
        self.ready = True

    def went_back(self, path: str, before: int, now: int) -> None:
        """Mark all permits as superseded after a restore of the API server from a backup.

        What the server returns from now on is newer, whatever its resourceVersion.
        """
        if path == PERMITS:
            self._superseded = {permit.name for permit in self.ledger}

    def changed(self, name: str, old: Permit | None, new: Permit | None) -> None:
        """Apply a change from the informer."""
        if new is not None:
            self.apply(new, watched=True)
        elif old is not None:
            entry = self.ledger.get(name)
            if entry is not None and entry.uid == old.metadata.uid:
                self.ledger.forget(name)

    def apply(self, permit: Permit, *, watched: bool = False) -> None:
        """Apply a Permit from the server, unless the ledger has a newer one.

        watched: the Permit is from a watch, so another replica may have written it.
        """
        name, meta = permit.metadata.name, permit.metadata
        observed = load_permit(permit, self.life.total_seconds())
        entry = self.ledger.get(name)
        newer = entry is not None and _version(entry.resource_version) > _version(
            meta.resource_version
        )
        if newer and name not in self._superseded:
            return
        self._superseded.discard(name)
        if entry is None or entry.uid not in ("", meta.uid) or (observed.open and not entry.open):
            observed.late = watched and observed.open and not observed.status_written
            self._enter_instead(observed)
            return
        if observed.unreadable or entry.unreadable:
            self._enter_instead(_as_either(entry, observed))
            return
        if entry.late and observed.status_written and not entry.status_written:
            entry.late = False
        elif watched and not entry.unsure and len(observed.grants) > len(entry.grants):
            entry.late = True  # another writer's upgrade, which was not judged here
        self._update_entry(entry, observed)

    def _enter_instead(self, observed: LedgerPermit) -> None:
        self.ledger.forget(observed.name)
        self.ledger.enter(observed)

    def _update_entry(self, entry: LedgerPermit, observed: LedgerPermit) -> None:
        upgrade_pending = entry.unsure and entry.uid and len(observed.grants) < len(entry.grants)
        entry.uid, entry.resource_version = observed.uid, observed.resource_version
        entry.expires_at, entry.renewed_at = observed.expires_at, observed.renewed_at
        entry.status_written = observed.status_written
        entry.scopes = observed.scopes or entry.scopes
        entry.displaced = observed.displaced if observed.displaced is not None else entry.displaced
        if not upgrade_pending:
            if entry.grants != observed.grants:
                self.ledger.replace_grants(entry, observed.grants)
            entry.unsure, entry.also = 0, frozenset()
        if observed.open:
            entry.state = observed.state
        elif entry.open:
            self.ledger.release(entry, observed.released_at or self._clock.now())

    # -- taking -------------------------------------------------------------------------------

    def take(
        self, ask: Ask, scopes: frozenset[str] | None, generation: int, now: datetime
    ) -> LedgerPermit:
        """Enter a permit that was judged right before. No await may lie between the two."""
        now = now.replace(
            microsecond=now.microsecond // 1000 * 1000
        )  # the precision when read back
        mine = self.ledger.open_of(ask.holder, ask.node)
        if mine is not None and mine.late and mine.class_.weight >= ask.class_.weight:
            return mine  # it is written already, and was judged only now
        if mine is not None:
            mine.also |= {mine.class_}
            mine.unsure += 1
            self.ledger.grant(mine, ask.class_, now)
            return mine
        permit = LedgerPermit(
            name=self.ledger.next_name(ask.holder, ask.node),
            node=ask.node,
            operation=ask.operation,
            holder=ask.holder,
            grants=[(ask.class_, now)],
            expires_at=now + self.life,
            scopes=scopes,
            policy_generation=generation,
            unsure=1,
        )
        self.ledger.enter(permit)
        return permit

    def leave(self, permit: LedgerPermit) -> None:
        """Undo `take` for a permit that was not taken after all and of which nothing was
        written.
        """
        if self.ledger.get(permit.name) is permit and permit.unsure:
            self._undo(permit)

    async def write(self, permit: LedgerPermit, *, again: bool = False) -> None:
        """Write a permit that was taken. Raises NotWritten; the ledger then counts what may be
        true.

        again: another attempt, perhaps by another replica, was made and may still be carried out.
        """
        if again:
            self._sent.setdefault(permit.name, self._clock.now())
        if permit.uid:
            await self._upgrade(permit)
        else:
            await self._create(permit)

    async def _create(self, permit: LedgerPermit) -> None:
        first = permit.name not in self._sent
        self._sent[permit.name] = self._clock.now()
        try:
            made = await self._kube.create(PERMITS, _body(permit), read_permit)
        except KubeError as error:
            if first and _certain(error) and not isinstance(error, AlreadyExists):
                self._undo(permit)
                raise NotWritten(str(error)) from error
            await self._read_back(permit, error)
        else:
            self._sent.pop(permit.name, None)
            self.apply(made)

    async def _upgrade(self, permit: LedgerPermit) -> None:
        first = permit.name not in self._sent
        self._sent[permit.name] = self._clock.now()
        spec = {"class": permit.class_, "grants": [grant.to_dict() for grant in grants_of(permit)]}
        change = {"metadata": {"resourceVersion": permit.resource_version}, "spec": spec}
        try:
            made = await self._kube.patch(_path(permit), change, decode=read_permit)
        except KubeError as error:
            if first and _certain(error) and not isinstance(error, Conflict | NotFound):
                self._undo(permit)
                raise NotWritten(str(error)) from error
            await self._read_back(permit, error)
        else:
            self._sent.pop(permit.name, None)
            self.apply(made)

    async def _read_back(self, entry: LedgerPermit, why: KubeError) -> None:
        """Determine whether a write with unclear outcome happened. Raises NotWritten unless
        it did.
        """
        try:
            permit = await self._kube.get(_path(entry), read_permit)
        except NotFound:
            if entry.uid:  # it existed, and was deleted
                self.ledger.forget(entry.name)
                self._sent.pop(entry.name, None)
            raise NotWritten(str(why), absent=True) from why
        except KubeError as error:
            raise NotWritten(f"{why}; and then {error}") from error
        if permit.spec.holder.uid != entry.holder.uid:
            self._undo(entry)
            self.apply(permit)
            raise NotWritten(f"permit {entry.name} is another holder's") from why
        self.apply(permit)
        if entry.unsure or self.ledger.get(entry.name) is not entry:
            raise NotWritten(str(why), absent=True) from why
        self._sent.pop(entry.name, None)

    def _undo(self, permit: LedgerPermit) -> None:
        """Undo what was taken and is known not to have been written."""
        self._sent.pop(permit.name, None)
        if not permit.uid:
            self.ledger.forget(permit.name)
            return
        for _ in range(permit.unsure):
            self.ledger.ungrant(permit)
        permit.unsure, permit.also = 0, frozenset()

    async def clear_up(self, permit: LedgerPermit, now: datetime) -> None:
        """Determine whether a write with unclear outcome happened. UNCLEAR after it was sent, it
        never will.
        """
        sent = self._sent.setdefault(permit.name, now)
        try:
            await self._read_back(permit, KubeError(0, "", "the outcome of a write is unclear"))
        except NotWritten as error:
            if error.absent and permit.unsure and now > sent + UNCLEAR:
                self._undo(permit)

    # -- status -------------------------------------------------------------------------------

    async def describe(self, permit: LedgerPermit) -> None:
        """Write the status of a grant. Without it the grant is valid; housekeeping writes the
        status later.
        """
        if permit.status_written and permit.expires_at >= permit.grants[-1][1] + self.life:
            return
        try:
            # Guarded, so that a late write does not reopen a permit that was released meanwhile.
            status = self._status(permit, permit.grants[-1][1] + self.life)
            await self._patch_status(permit, status, guarded=True)
        except KubeError as error:
            log.info(
                "permit without status for now", extra={"permit": permit.name, "why": str(error)}
            )

    def _status(self, permit: LedgerPermit, expires_at: datetime) -> dict[str, Any]:
        return {
            "state": PermitState.GRANTED,
            "grantedAt": format_time(permit.granted_at),
            "expiresAt": format_time(max(expires_at, permit.expires_at)),
            "scopes": sorted(permit.scopes or ()),
        }

    async def renew(
        self, permit: LedgerPermit, now: datetime, at_least: timedelta = timedelta(0)
    ) -> None:
        """Extend the permit by its life, or by `at_least` if that is longer.

        Raises NotWritten; then the old expiry stays, also in memory.
        """
        status = self._status(permit, now + max(self.life, at_least)) | {
            "renewedAt": format_time(now)
        }
        for last in (False, True):
            try:
                await self._patch_status(permit, status, guarded=True)
            except Conflict as error:
                await self._refresh(permit)
                if last or not permit.open or permit.state is PermitState.REVOKED:
                    raise NotWritten(str(error)) from error
            except KubeError as error:
                raise NotWritten(str(error)) from error
            else:
                return

    async def overdue(self, permit: LedgerPermit) -> None:
        """Mark the permit as overdue: it has expired and its holder still exists. Raises
        KubeError.
        """
        await self._patch_status(permit, {"state": PermitState.OVERDUE}, guarded=True)

    async def revoke(self, permit: LedgerPermit, reason: str, message: str) -> None:
        """Revoke the permit. Its holder may begin nothing more; it counts until its release.

        Raises KubeError.
        """
        update = ConditionUpdate.of(True, reason, message)
        conditions = set_condition([], "Revoked", update, generation=None, now=self._clock.now())
        status = {
            "state": PermitState.REVOKED,
            "conditions": [condition.to_dict() for condition in conditions],
        }
        await self._patch_status(permit, status, guarded=True)

    async def release(self, permit: LedgerPermit) -> None:
        """Release the permit. Raises NotWritten; then it still counts, and housekeeping retries."""
        permit.releasing = True
        now = self._clock.now()
        status = {"state": PermitState.RELEASED, "releasedAt": format_time(now)}
        try:
            await self._patch_status(permit, status)
        except NotFound as error:
            if not permit.uid:  # never observed; its creation may still be carried out
                raise NotWritten(str(error)) from error
            self.ledger.forget(permit.name)
        except KubeError as error:
            await self._refresh(permit)
            if permit.open and self.ledger.get(permit.name) is permit:
                raise NotWritten(str(error)) from error

    async def _refresh(self, permit: LedgerPermit) -> None:
        try:
            self.apply(await self._kube.get(_path(permit), read_permit))
        except NotFound:
            self.ledger.forget(permit.name)
        except KubeError as error:
            raise NotWritten(str(error)) from error

    async def _patch_status(
        self, permit: LedgerPermit, status: dict[str, Any], *, guarded: bool = False
    ) -> None:
        """Patch the status.

        guarded: only if the Permit has not changed since, so that a released one stays released.
        """
        change: dict[str, Any] = {"status": status}
        if guarded:
            change["metadata"] = {"resourceVersion": permit.resource_version}
        path = paths.custom(Permit.resource.plural, permit.name, "status")
        self.apply(await self._kube.patch(path, change, decode=read_permit))

    # -- forgetting ---------------------------------------------------------------------------

    def forgettable(self, before: datetime) -> Iterable[LedgerPermit]:
        """Return the permits that were released before a time, to which no rate looks back."""
        return [h for h in self.ledger if not h.open and (h.released_at or h.granted_at) < before]

    async def delete(self, permit: LedgerPermit) -> None:
        """Delete the permit, then forget it. Raises KubeError."""
        with contextlib.suppress(NotFound):
            await self._kube.delete(_path(permit), uid=permit.uid)
        self.ledger.forget(permit.name)


def _certain(error: KubeError) -> bool:
    """Return whether the server certainly did nothing: it read and rejected the request."""
    return 400 <= error.status < 500 and error.status != 408


def _as_either(entry: LedgerPermit, observed: LedgerPermit) -> LedgerPermit:
    """Return the permit as the server shows it, if the old or the new one is unreadable.

    What an unreadable one does not say is kept from before.
    """
    if not observed.unreadable:
        return observed
    known = not entry.unreadable
    return replace(
        observed,
        node=observed.node or entry.node,
        operation=entry.operation if known else observed.operation,
        grants=max(entry.grants, observed.grants, key=len),
        holder=entry.holder if observed.holder.kind == UNREADABLE else observed.holder,
        releasing=entry.releasing and observed.open,
        looked_at=entry.looked_at,
        displaced=observed.displaced if observed.displaced is not None else entry.displaced,
        take=entry.take,
    )


def _version(text: str) -> int:
    return int(text or 0)


def _path(permit: LedgerPermit) -> str:
    return paths.custom(Permit.resource.plural, permit.name)


def _body(entry: LedgerPermit) -> dict[str, Any]:
    """Return the Permit to create. The server drops the status of a new object."""
    permit = Permit(
        metadata=ObjectMeta(name=entry.name),
        spec=PermitSpec(
            operation=entry.operation,
            class_=entry.class_,
            node_name=entry.node,
            holder=entry.holder,
            policy_generation=entry.policy_generation,
            grants=grants_of(entry),
        ),
    )
    body = permit.to_dict()
    body.pop("status", None)
    return body
