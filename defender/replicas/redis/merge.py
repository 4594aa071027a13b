"""Merge the log into a replica's ledger. Pure.

There are two sources about permits: the log, with every take in order, and the watch of Permits,
with what is written, by resourceVersion. Either may be ahead. These rules never count less than
both together require:

- A take that the ledger does not know is entered, whatever the watch shows.
- Of written permits the higher resourceVersion is valid.
- A grant that is not written yet counts until the log says that it was undone.
"""

from collections.abc import Callable

from defender.decision.ledger import LedgerPermit, PermitLedger
from defender.replicas.redis.entry import read
from defender.replicas.redis.log import LogChanges, LogEntry

OnRecord = Callable[[str], bool]
"""Returns whether the watch of Permits shows one of this name."""


def merge(ledger: PermitLedger, changes: LogChanges, on_record: OnRecord) -> None:
    """Merge the changes. Raises ValueError for an unreadable entry."""
    before = _forget_takes(ledger) if changes.full else set()
    for entry in changes.entries:
        if entry.text:
            _merge_entry(ledger, read(entry.name, entry.take, entry.text))
        else:
            _came_to_nothing(ledger, entry, on_record)
    for name in before - {entry.name for entry in changes.entries}:
        _drop_unlogged(ledger, name, on_record)


def _forget_takes(ledger: PermitLedger) -> set[str]:
    """Reset the take numbers, which another log or a gap makes incomparable. Return the permits
    that had one.
    """
    had = {permit.name for permit in ledger if permit.take}
    for name in had:
        if permit := ledger.get(name):
            permit.take = 0
    return had


def _came_to_nothing(ledger: PermitLedger, entry: LogEntry, on_record: OnRecord) -> None:
    permit = ledger.get(entry.name)
    if permit is None or permit.take > entry.take or not permit.open:
        return
    if not permit.uid and not on_record(entry.name):
        ledger.forget(entry.name)
    elif not permit.status_written:
        permit.late = True  # it was written after the log reported that it would not be


def _merge_entry(ledger: PermitLedger, logged: LedgerPermit) -> None:
    current = ledger.get(logged.name)
    if current is None:
        ledger.enter(logged)
        return
    if logged.take < current.take:
        return  # a later take of this name is known
    is_new_take = logged.take > current.take
    current.take = logged.take
    if not current.open:
        return  # its release is written, and a released permit is not reopened
    current.releasing |= logged.releasing
    if is_new_take or not logged.late:
        current.late = logged.late
    if version(logged) >= version(current):
        _apply_logged(ledger, current, logged)
    elif len(logged.grants) > len(current.grants):
        _pending(ledger, current, logged)  # an upgrade that the watch does not show yet
    elif current.unsure and not logged.unsure:
        _came_to_less(ledger, current, logged)


def _apply_logged(ledger: PermitLedger, current: LedgerPermit, logged: LedgerPermit) -> None:
    current.uid, current.resource_version = logged.uid or current.uid, logged.resource_version
    current.expires_at, current.renewed_at = logged.expires_at, logged.renewed_at
    current.status_written |= logged.status_written
    current.scopes = logged.scopes or current.scopes
    current.unreadable = logged.unreadable
    _pending(ledger, current, logged)
    if logged.open:
        current.state = logged.state
    else:
        ledger.release(current, logged.released_at or logged.granted_at)


def _pending(ledger: PermitLedger, current: LedgerPermit, logged: LedgerPermit) -> None:
    if current.grants != logged.grants:
        ledger.replace_grants(current, logged.grants)
    current.unsure, current.also = logged.unsure, logged.also


def _came_to_less(ledger: PermitLedger, current: LedgerPermit, logged: LedgerPermit) -> None:
    """Undo grants that the watch, which is ahead, does not show. Their write has failed."""
    for _ in range(min(current.unsure, len(current.grants) - len(logged.grants))):
        ledger.ungrant(current)
    current.unsure, current.also = 0, frozenset()


def _drop_unlogged(ledger: PermitLedger, name: str, on_record: OnRecord) -> None:
    """Keep of a permit from an earlier log only what the watch shows."""
    permit = ledger.get(name)
    if permit is None or not permit.open:
        return
    if not permit.uid and not on_record(name):
        ledger.forget(name)
    elif not permit.status_written:
        permit.late = True


def version(permit: LedgerPermit) -> int:
    return int(permit.resource_version or 0)
