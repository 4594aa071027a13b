"""Merge the log into a replica's ledger. Pure.

There are two sources about permits: the log, with every take in order, and the watch of Permits,
with what is written, by resourceVersion. Either may be ahead. These rules never count less than
both together require:

- A take that the ledger does not know is entered, whatever the watch shows.
- Of written permits the higher resourceVersion is valid.
- A grant that is not written yet counts until the log says that it was undone.
"""

from collections.abc import Callable

from defender.ledger import LedgerPermit, PermitLedger
from defender.redis.entry import read
from defender.redis.log import LogChanges, LogEntry

OnRecord = Callable[[str], bool]
"""Returns whether the watch of Permits shows one of this name."""


def merge(ledger: PermitLedger, changes: LogChanges, on_record: OnRecord) -> None:
    """Merge the changes. Raises ValueError for an unreadable entry."""
    before = _forget_takes(ledger) if changes.full else set()
    for entry in changes.entries:
        if entry.text:
            _take_over(ledger, read(entry.name, entry.take, entry.text))
        else:
            _came_to_nothing(ledger, entry, on_record)
    for name in before - {entry.name for entry in changes.entries}:
        _no_longer_told(ledger, name, on_record)


def _forget_takes(ledger: PermitLedger) -> set[str]:
    """Reset the take numbers, which another log or a gap makes incomparable. Return the permits
    that had one.
    """
    had = {held.name for held in ledger if held.take}
    for name in had:
        if held := ledger.get(name):
            held.take = 0
    return had


def _came_to_nothing(ledger: PermitLedger, entry: LogEntry, on_record: OnRecord) -> None:
    held = ledger.get(entry.name)
    if held is None or held.take > entry.take or not held.open:
        return
    if not held.uid and not on_record(entry.name):
        ledger.forget(entry.name)
    elif not held.status_written:
        held.late = True  # it was written after the log reported that it would not be


def _take_over(ledger: PermitLedger, told: LedgerPermit) -> None:
    held = ledger.get(told.name)
    if held is None:
        ledger.enter(told)
        return
    if told.take < held.take:
        return  # a later take of this name is known
    first_heard_of = told.take > held.take
    held.take = told.take
    if not held.open:
        return  # its release is written, and a released permit is not reopened
    held.releasing |= told.releasing
    if first_heard_of or not told.late:
        held.late = told.late
    if version(told) >= version(held):
        _as_told(ledger, held, told)
    elif len(told.grants) > len(held.grants):
        _pending(ledger, held, told)  # an upgrade that the watch does not show yet
    elif held.unsure and not told.unsure:
        _came_to_less(ledger, held, told)


def _as_told(ledger: PermitLedger, held: LedgerPermit, told: LedgerPermit) -> None:
    held.uid, held.resource_version = told.uid or held.uid, told.resource_version
    held.expires_at, held.renewed_at = told.expires_at, told.renewed_at
    held.status_written |= told.status_written
    held.scopes = told.scopes or held.scopes
    held.unreadable = told.unreadable
    _pending(ledger, held, told)
    if told.open:
        held.state = told.state
    else:
        ledger.release(held, told.released_at or told.granted_at)


def _pending(ledger: PermitLedger, held: LedgerPermit, told: LedgerPermit) -> None:
    if held.grants != told.grants:
        ledger.replace_grants(held, told.grants)
    held.unsure, held.also = told.unsure, told.also


def _came_to_less(ledger: PermitLedger, held: LedgerPermit, told: LedgerPermit) -> None:
    """Undo grants that the watch, which is ahead, does not show. Their write has failed."""
    for _ in range(min(held.unsure, len(held.grants) - len(told.grants))):
        ledger.ungrant(held)
    held.unsure, held.also = 0, frozenset()


def _no_longer_told(ledger: PermitLedger, name: str, on_record: OnRecord) -> None:
    """Keep of a permit from an earlier log only what the watch shows."""
    held = ledger.get(name)
    if held is None or not held.open:
        return
    if not held.uid and not on_record(name):
        ledger.forget(name)
    elif not held.status_written:
        held.late = True


def version(held: LedgerPermit) -> int:
    return int(held.resource_version or 0)
