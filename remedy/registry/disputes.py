"""Tracks rules that the engines disagree about, also over our restart.

remedy.registry.quarantine says how long a dispute lasts.
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from kubenode.api.v1alpha1 import NodeRemedier
from remedy.registry import quarantine
from remedy.registry.quarantine import Dispute
from remedy.registry.select import Digests, id_of
from rules.engines.disputes import DisputeRecord

log = logging.getLogger(__name__)


class Quarantines(Protocol):
    """Quarantine of the engine, by rule id."""

    @property
    def quarantined(self) -> Mapping[str, str]: ...
    def dispute(self, rule: str) -> DisputeRecord | None: ...
    async def quarantine(self, rules: Mapping[str, str]) -> None: ...
    async def release(self, rules: Collection[str]) -> None: ...


@dataclass(frozen=True, slots=True)
class Moved:
    """Names of the rules with a new dispute, and of those with an ended one."""

    new: Collection[str] = ()
    ended: Collection[str] = ()


class Disputes:
    """Current disputes by rule name."""

    def __init__(self, engine: Quarantines) -> None:
        self._engine = engine
        self._known: dict[str, tuple[str, Dispute]] = {}
        """By name: the id of the disputed version, and its dispute."""

    def why(self, name: str) -> str:
        """Return why a rule may not act; "" if it is not disputed."""
        entry = self._known.get(name)
        return entry[1].why if entry is not None else ""

    async def refresh(
        self,
        running: Mapping[str, NodeRemedier],
        newest: Mapping[str, NodeRemedier],
        now: datetime,
    ) -> Moved:
        """Read the engine's quarantine, release what people have cleared, and return what changed.

        running: by name, the versions that are loaded
        newest: by name, the stored rules with their annotations
        """
        in_quarantine = self._engine.quarantined
        current = {}
        for name, rule in running.items():
            if (id_ := id_of(rule)) in in_quarantine:
                known = self._known.get(name)
                same = known is not None and known[0] == id_
                current[name] = (
                    known if known and same else (id_, self._describe(in_quarantine[id_], id_, now))
                )
        cleared = {
            name
            for name, (_, dispute) in current.items()
            if quarantine.cleared(newest.get(name, running[name]), dispute, now)
        }
        await self._engine.release([current.pop(name)[0] for name in cleared])
        for name in sorted(cleared):
            log.warning("quarantine cleared by a person", extra={"rule": name})
        before, self._known = self._known, current
        new = [name for name in current if current[name] != before.get(name)]
        for name in new:
            self._log(name)
        return Moved(sorted(new), sorted(before.keys() - current.keys()))

    async def restore(
        self,
        running: Mapping[str, NodeRemedier],
        newest: Mapping[str, NodeRemedier],
        digests: Digests,
        now: datetime,
    ) -> None:
        """Restore disputes from before our restart, before any disputed rule may create a job."""
        for name, rule in running.items():
            if name not in newest:
                continue
            dispute = quarantine.restored(newest[name], digests.of(rule), now)
            if dispute is not None:
                self._known[name] = id_of(rule), dispute
                await self._engine.quarantine({id_of(rule): dispute.why})

    def _describe(self, why: str, id_: str, now: datetime) -> Dispute:
        record = self._engine.dispute(id_)
        return Dispute(quarantine.sentence(why), record.at if record is not None else now)

    def _log(self, name: str) -> None:
        id_, dispute = self._known[name]
        record = self._engine.dispute(id_)
        fact = record.fact if record is not None else ()
        log.error("rule engines disagree", extra={"rule": name, "why": dispute.why, "fact": fact})
