"""NodeRemediers as they are loaded: the newest good version of each, and what open jobs follow.

A change of rules is compiled and loaded as a whole, a moment after the last of several changes. A
rule that is refused never unloads a good one: its last good version stays, and its status says so.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Protocol

from kubenode.api.v1alpha1 import Mode, NodeRemedier, RemedyOperationJob
from kubenode.api.v1alpha1.leaves import AbsentLeaf, ConditionLeaf, FactLeaf
from kubenode.runtime.clock import Clock, wait
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node
from kubenode.runtime.recorder import EventRecorder
from remedy.job.model import Job
from remedy.registry.select import Wanted, digest, id_of, needs_its_rule, wanted
from remedy.registry.status import Standing, phase_of
from remedy.remedier.judge import rule_id
from remedy.remedier.values import OF_THE_FLEET, OF_TIME
from rules.diagnose import LoadReport
from rules.program import Rule

log = logging.getLogger(__name__)

SETTLE_SECONDS = 0.05
"""Several rules are applied together more often than one: wait for the others."""
QUARANTINE_SECONDS = 5.0
"""How often is looked whether the engines have come to differ about a rule."""


class Loads(Protocol):
    @property
    def quarantined(self) -> Mapping[str, str]: ...
    @property
    def trouble(self) -> str: ...
    async def load(self, rules: list[Rule]) -> LoadReport: ...


class Registry:
    """A Part. `on_load` is called after each load: what the rules say may be different now."""

    name = "rule registry"

    def __init__(
        self,
        remediers: Informer[NodeRemedier],
        jobs: Informer[RemedyOperationJob],
        nodes: Informer[Node],
        engine: Loads,
        clock: Clock,
        recorder: EventRecorder,
        *,
        one_engine_is_enough: bool = False,
    ) -> None:
        self._remediers, self._jobs, self._nodes = remediers, jobs, nodes
        self._engine, self._clock, self._recorder = engine, clock, recorder
        self.one_engine_is_enough = one_engine_is_enough
        self.on_load: list[Callable[[], None]] = []
        self.on_standing: list[Callable[[str], None]] = []
        self.follows_time = False
        """Whether evidence of a rule can change with nothing but time or other nodes."""
        self.loaded = asyncio.Event()
        self._active: dict[str, NodeRemedier] = {}
        self._ids: frozenset[str] = frozenset()
        self._good: dict[str, NodeRemedier] = {}
        self._why: dict[str, str] = {}
        self._quarantined: dict[str, str] = {}
        self._matching: dict[str, set[str]] = {}
        self._last_match: dict[str, datetime] = {}
        self._seen: dict[str, int] = {}
        self._hashes: dict[str, str] = {}
        self._reach: dict[str, int] = {}
        self._dirty = asyncio.Event()
        self._told: dict[str, tuple[int, str]] = {}
        remediers.add_handler(self._rule_changed)
        jobs.add_handler(self._job_changed)

    # -- what others read ------------------------------------------------------------------------

    def active(self) -> Mapping[str, NodeRemedier]:
        """Rules that may make jobs, by rule id; frozen rules of open jobs are not among them."""
        return self._active

    @property
    def trouble(self) -> str:
        """Why the second engine gives no answers, "" while it does."""
        return self._engine.trouble

    def is_loaded(self, version: str) -> bool:
        return version in self._ids

    def shortest_max_age(self) -> timedelta:
        ages = [
            leaf.max_age
            for rule in self._active.values()
            for leaf in rule.spec.when.leaves()
            if isinstance(leaf, ConditionLeaf)
        ]
        return min(ages, default=timedelta(minutes=15))

    def matched(self, node: str, rules: frozenset[str], now: datetime) -> None:
        """Which active rules match `node` now, before guards."""
        for id_ in self._active:
            name = id_.rpartition("@")[0]
            nodes = self._matching.setdefault(name, set())
            if (id_ in rules) == (node in nodes):
                continue
            if id_ in rules:
                nodes.add(node)
                self._last_match[name] = now
            else:
                nodes.discard(node)
            self._changed(name)

    def standing(self, rule: NodeRemedier) -> Standing:
        name = rule.metadata.name
        why, quarantined = self._why.get(name, ""), self._quarantined.get(name, "")
        good = self._good.get(name) if rule.spec.mode is not Mode.OFF else None
        return Standing(
            phase=phase_of(rule, why, quarantined),
            why=why,
            quarantined=quarantined,
            loaded_hash=self._hashes.get(name) if good is not None else None,
            matching=len(self._matching.get(name, ())) if good is not None else 0,
            last_match=self._last_match.get(name),
            would_reach=self._reach.get(name, 0),
        )

    def knows(self, rule: NodeRemedier) -> bool:
        """Whether `standing` speaks of this version of the rule, not of the one before."""
        return self._seen.get(rule.metadata.name) == rule.metadata.generation

    # -- loading ---------------------------------------------------------------------------------

    async def run(self) -> None:
        for informer in (self._remediers, self._jobs, self._nodes):
            await informer.synced.wait()
        while True:
            self._dirty.clear()
            await self.reload()
            while not await wait(self._clock, self._dirty, QUARANTINE_SECONDS):
                await self.look_for_disputes()
            await self._clock.sleep(SETTLE_SECONDS)

    async def look_for_disputes(self) -> None:
        """A rule that the engines have come to differ about may not act: say so."""
        found = self._engine.quarantined
        now = {n: found[id_of(r)] for n, r in self._good.items() if id_of(r) in found}
        new = set(now) - set(self._quarantined)
        changed = {n for n in {*now, *self._quarantined} if now.get(n) != self._quarantined.get(n)}
        self._quarantined = now
        for name in sorted(changed):
            self._changed(name)
        for name in sorted(new):
            log.error("rule engines disagree", extra={"rule": name, "why": now[name]})
            await self._warn(self._good[name], "EngineDisagreement", now[name])

    async def reload(self) -> None:
        rules = list(self._remediers.cache.values())
        want = wanted(rules, self._jobs.cache.values())
        report = await self._load(self._with_good(want, frozenset()))
        refused = {**want.refused, **_by_name(want, report)}
        if set(refused) - set(want.refused):
            await self._load(self._with_good(want, frozenset(refused)))
        self._adopt(rules, want, refused)
        await self._count(rules)
        await self._tell(rules)
        await self.look_for_disputes()
        for name in {rule.metadata.name for rule in rules}:
            self._changed(name)
        self.loaded.set()
        for callback in self.on_load:
            callback()

    async def _load(self, rules: Mapping[str, NodeRemedier]) -> LoadReport:
        return await self._engine.load([Rule(id_, rule) for id_, rule in sorted(rules.items())])

    def _with_good(self, want: Wanted, refused: frozenset[str]) -> dict[str, NodeRemedier]:
        """Everything to load; the last good version stands in for a refused one."""
        names = frozenset(want.refused) | refused
        newest = {i: r for i, r in want.newest.items() if r.metadata.name not in refused}
        good = {id_of(r): r for n, r in self._good.items() if n in names and n not in want.off}
        return {**want.frozen, **good, **newest}

    def _adopt(
        self,
        rules: Iterable[NodeRemedier],
        want: Wanted,
        refused: Mapping[str, str],
    ) -> None:
        there = {rule.metadata.name for rule in rules}
        accepted = {
            r.metadata.name: r for r in want.newest.values() if r.metadata.name not in refused
        }
        kept = {n: r for n, r in self._good.items() if n in refused and n in there}
        self._good = {**kept, **accepted}
        self._why = {name: why for name, why in refused.items() if name in there}
        self._active = {id_of(r): r for r in self._good.values()}
        self._hashes = {name: digest(r) for name, r in self._good.items()}
        self._ids = frozenset(self._active) | frozenset(want.frozen)
        self._seen = {rule.metadata.name: rule.metadata.generation for rule in rules}
        for name in set(self._matching) - set(self._good):
            self._matching.pop(name)
        self.follows_time = any(map(_follows_time, self._active.values()))
        log.info(
            "rules loaded",
            extra={
                "active": len(self._active),
                "frozen": len(want.frozen),
                "refused": sorted(self._why),
            },
        )

    async def _count(self, rules: Iterable[NodeRemedier]) -> None:
        """How many nodes each rule selects; the loop has its turn between two rules."""
        for rule in rules:
            self._reach[rule.metadata.name] = sum(
                rule.spec.nodes.matches(node.metadata.labels) for node in self._nodes.cache.values()
            )
            await self._clock.sleep(0)

    async def _tell(self, rules: Iterable[NodeRemedier]) -> None:
        """A Warning on each rule that was refused, once per version and reason."""
        for rule in rules:
            name = rule.metadata.name
            key = (rule.metadata.generation, self._why.get(name, ""))
            if not key[1] or self._told.get(name) == key:
                continue
            self._told[name] = key
            log.warning("rule refused", extra={"rule": name, "why": key[1]})
            await self._warn(rule, "RuleRejected", key[1])

    async def _warn(self, rule: NodeRemedier, reason: str, message: str) -> None:
        about = {
            "kind": "NodeRemedier",
            "api_version": rule.api_version,
            "name": rule.metadata.name,
            "uid": rule.metadata.uid,
        }
        await self._recorder.emit(about, "Warning", reason, message)

    # -- noticing --------------------------------------------------------------------------------

    def _rule_changed(self, name: str, old: Any, new: Any) -> None:
        if old is None or new is None or old.metadata.generation != new.metadata.generation:
            self._dirty.set()
        if new is not None:
            self._changed(name)

    def _job_changed(
        self, name: str, old: RemedyOperationJob | None, new: RemedyOperationJob | None
    ) -> None:
        job = new or old
        reference = job.spec.remedier if job is not None else None
        if reference is None:
            return
        if old is None or new is None or old.status.phase is not new.status.phase:
            self._changed(reference.name)
        # A job of a version that is not loaded could not be judged.
        version = rule_id(reference.name, reference.generation)
        if new is not None and not self.is_loaded(version) and needs_its_rule(Job.of(new)):
            self._dirty.set()

    def _changed(self, name: str) -> None:
        for callback in self.on_standing:
            callback(name)


def _by_name(want: Wanted, report: LoadReport) -> dict[str, str]:
    """What the compiler refused, by name; a frozen rule that is refused only keeps its job held."""
    return {
        want.newest[id_].metadata.name: str(why)
        for id_, why in dict(report.rejected).items()
        if id_ in want.newest
    }


def _follows_time(rule: NodeRemedier) -> bool:
    names = {
        leaf.name
        for found in rule.spec.when.leaves()
        for leaf in ([found.leaf] if isinstance(found, AbsentLeaf) else [found])
        if isinstance(leaf, FactLeaf)
    }
    return bool(names & (OF_TIME | OF_THE_FLEET))
