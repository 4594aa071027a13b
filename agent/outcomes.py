"""Settles acts: by their result, by proof after an interruption, or as unknown."""

import logging
from collections.abc import Mapping

from msgspec.structs import replace

from agent.actions import Action, Bench
from agent.host import HostError, HostUnreachable
from agent.journal import JournalEntry, JournalError, PatientJournal
from agent.outcome import INTERRUPTED, StepOutcome, boot_cut, failed
from agent.request import Key

log = logging.getLogger(__name__)

PROOF_SECONDS = 30.0
"""Longest time for a proof after an interruption, in which a unit has to become stable."""


class Settling:
    def __init__(
        self, bench: Bench, journal: PatientJournal, catalogue: Mapping[str, Action]
    ) -> None:
        self._bench, self._journal, self._catalogue = bench, journal, catalogue

    async def settle(self, key: Key, entry: JournalEntry) -> JournalEntry:
        """Return the entry with an outcome. Never acts."""
        if entry.outcome is not None:
            return entry
        action = self._catalogue.get(entry.action)
        boot_id = self._bench.host.boot_id()
        if entry.boot_id != boot_id:
            outcome = failed(boot_cut(boot_id)) if action is None else action.after_boot(boot_id)
        elif action is None:
            outcome = failed(f"the agent ended while it worked; {INTERRUPTED}")
        else:
            proven = await self.proof(action, entry)
            outcome = proven or failed(f"the agent ended while it worked; {INTERRUPTED}")
        return await self.finish(key, entry, outcome)

    async def proof(self, action: Action, entry: JournalEntry) -> StepOutcome | None:
        limit = min(entry.limit, PROOF_SECONDS)
        end = self._bench.clock.monotonic() + limit
        while True:
            try:
                remaining = max(0.0, end - self._bench.clock.monotonic())
                return await action.prove(entry.before, remaining, self._bench)
            except HostUnreachable:  # the message bus may come back
                if self._bench.clock.monotonic() + 1.0 > end:
                    return None
            except HostError:
                return None
            await self._bench.clock.sleep(1.0)

    async def finish(self, key: Key, entry: JournalEntry, outcome: StepOutcome) -> JournalEntry:
        ended = replace(
            entry,
            finished_at=self._bench.clock.now(),
            outcome=outcome,
            ended_on=self._bench.host.boot_id(),
        )
        try:
            await self._journal.finish(key, ended)
        except JournalError as error:
            # The intent on disk prevents a repetition, so the answer may be sent now.
            log.error("an outcome is not on disk", extra={"error": str(error), "job": entry.job})
        return ended
