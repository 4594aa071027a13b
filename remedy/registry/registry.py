"""Loads NodeRemediers: the newest good version of each, and the versions that open jobs follow.

All rules are compiled and loaded together, a moment after the last of several changes. A rejected
version never unloads a good one: the last good version stays loaded, and the rule's status says so.
That version outlives our restart (remedy.registry.revisions); it is read before the first load.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from kubenode.api.v1alpha1 import NodeRemedier, RemedyOperationJob
from kubenode.api.v1alpha1.leaves import AbsentLeaf, ConditionLeaf, FactLeaf
from kubenode.runtime.clock import Clock, wait
from kubenode.runtime.kube.errors import Forbidden, KubeError
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node
from kubenode.runtime.recorder import EventRecorder
from remedy.registry.blame import blamed
from remedy.registry.disputes import Disputes, Quarantines
from remedy.registry.jobs import JobLedger
from remedy.registry.load_plan import Good, LoadedRules, outcome, refusals, still_there, to_load
from remedy.registry.matches import Matches
from remedy.registry.radius import accepted_nodes, marks_alone
from remedy.registry.reach import RuleReach
from remedy.registry.select import Digests, SelectedRules, id_of, wanted
from remedy.registry.sizes import NoSizeLimit, SizeLimit, SizeVerdicts
from remedy.registry.status import RuleState, phase_of
from remedy.remedier.judge import rule_id
from remedy.remedier.values import OF_THE_FLEET, OF_TIME
from rules.diagnose import LoadReport
from rules.nodekeys import NodeKeys
from rules.program import RuleVersion

log = logging.getLogger(__name__)

SETTLE_SECONDS = 0.05
"""Delay before a load: several rules are often applied together."""
QUARANTINE_SECONDS = 5.0
"""Interval of checks whether the engines disagree about a rule."""
RETRY_SECONDS = 2.0
"""Interval of tries to read the last good versions."""
RECOUNT_SECONDS = 30.0
"""Interval at which rules that would match too many nodes are counted again."""
MOST_LOADS = 3
"""Loads in one reload: all rules; the rest with last good versions; versions that a rejected one
affected.
"""
MOST_REPORTED = 50
"""Rejected rules that one load logs and reports in Events."""

Remember = Callable[[], Awaitable[Mapping[str, NodeRemedier]]]
"""Reads the last good versions from before our start, by UID of the rule. Raises KubeError."""


class Loads(Quarantines, Protocol):
    """The rule engine as the registry uses it."""

    @property
    def trouble(self) -> str: ...
    async def faults(self, rules: Sequence[NodeRemedier]) -> dict[str, str]: ...
    async def load(self, rules: list[RuleVersion]) -> LoadReport: ...


class RuleRegistry:
    """A Part that loads rules. `on_load` is called after each load: diagnoses may be different
    then.
    """

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
        accept_single_engine: bool = False,
        node_keys: NodeKeys | None = None,
        remember: Remember | None = None,
    ) -> None:
        self._remediers, self._jobs, self._nodes = remediers, jobs, nodes
        self._engine, self._clock, self._recorder = engine, clock, recorder
        self.accept_single_engine = accept_single_engine
        self.remember = remember
        self._node_keys = node_keys or NodeKeys()
        self.size_limit: SizeLimit = NoSizeLimit()
        self._oversized: Mapping[str, str] = {}
        """By name, why a new version that would match too many nodes is not loaded."""
        self.on_load: list[Callable[[], None]] = []
        self.on_standing: list[Callable[[str], None]] = []
        self.follows_time = False
        """Whether evidence of a rule can change by time alone or with other nodes."""
        self.loaded = asyncio.Event()
        self._now = LoadedRules()
        self._active: dict[str, NodeRemedier] = {}
        self._disputes = Disputes(engine)
        self._matches, self._reach = Matches(), RuleReach(nodes, clock)
        self._digests, self._ledger = Digests(), JobLedger()
        self._first = True
        self._dirty = asyncio.Event()
        self._reported: dict[str, tuple[int, str]] = {}
        remediers.add_handler(self._rule_changed)
        jobs.add_handler(self._job_changed)

    # -- what others read ------------------------------------------------------------------------

    def active(self) -> Mapping[str, NodeRemedier]:
        """Return the rules that may create jobs, by rule id, without frozen versions that only open
        jobs follow.
        """
        return self._active

    def loaded_rules(self) -> Mapping[str, NodeRemedier]:
        """Return everything that is loaded, by rule id: active rules and versions that open jobs
        follow.
        """
        return self._now.taken

    def good(self, name: str) -> NodeRemedier | None:
        """Return the last good version of a rule, which must outlive a restart; None for none."""
        return self._now.good.get(name)

    @property
    def trouble(self) -> str:
        """Why the second engine gives no answers, "" while it does."""
        return self._engine.trouble

    def is_loaded(self, version: str) -> bool:
        return version in self._now.taken

    def shortest_max_age(self) -> timedelta:
        ages = [
            leaf.max_age
            for rule in self._active.values()
            for leaf in rule.spec.when.leaves()
            if isinstance(leaf, ConditionLeaf)
        ]
        return min(ages, default=timedelta(minutes=15))

    def matched(self, node: str, rules: frozenset[str], now: datetime) -> None:
        """Record which active rules match `node` now, before guards."""
        names = frozenset(id_.rpartition("@")[0] for id_ in rules if id_ in self._active)
        for name in self._matches.says(node, names, now):
            self._changed(name)
        if node not in self._nodes.cache:
            self._matches.forget(node)

    def matching(self, name: str) -> Collection[str]:
        """Return the nodes that the rule of this name matches now, before guards."""
        return self._matches.nodes(name)

    def is_crowded(self, rule_id: str) -> bool:
        """Report whether an active rule that acts without a permit has too many nodes to mark one
        more.

        A node that was not evaluated since our start may match, and counts as if it did.
        """
        rule = self._active.get(rule_id)
        if rule is None or not marks_alone(rule):
            return False
        name, fleet = rule.metadata.name, len(self._nodes.cache)
        stored = self._remediers.get(name)
        if stored is not None and stored.metadata.generation == rule.metadata.generation:
            rule = stored  # an annotation is no new generation
        most = self.size_limit.most_at_once(rule, fleet)
        nodes = max(self._matches.count(name), self._ledger.counts(name).running)
        return most is not None and nodes + max(fleet - self._matches.judged, 0) > most

    def standing(self, rule: NodeRemedier) -> RuleState:
        """Return what the registry knows of the rule, for its status."""
        name = rule.metadata.name
        dispute, why = self._disputes.why(name), self._now.why.get(name, "")
        running = self._now.running.get(name)
        size = self._reach.size(name)
        return RuleState(
            phase=phase_of(rule, why, dispute),
            why=why,
            quarantined=dispute,
            loaded_hash=self._digests.of(running) if running is not None else None,
            matching=self._matches.count(name) if running is not None else 0,
            last_match=self._matches.last(name),
            would_reach=size.nodes,
            with_replace_path=size.with_replace_path,
            fleet=self._reach.fleet,
            jobs=self._ledger.counts(name),
            crowded=running is not None and self.is_crowded(id_of(running)),
        )

    def knows(self, rule: NodeRemedier) -> bool:
        """Report whether `standing` covers this version of the rule, not the one before."""
        return self._now.generations.get(rule.metadata.name) == rule.metadata.generation

    # -- loading ---------------------------------------------------------------------------------

    async def run(self) -> None:
        for informer in (self._remediers, self._jobs, self._nodes):
            await informer.synced.wait()
        while True:
            self._dirty.clear()
            await self.reload()
            count_again = self._clock.monotonic() + RECOUNT_SECONDS
            while not await wait(self._clock, self._dirty, QUARANTINE_SECONDS):
                await self.refresh_disputes()
                if self._oversized and self._clock.monotonic() >= count_again:
                    break
            await self._clock.sleep(SETTLE_SECONDS)

    async def reload(self) -> None:
        if self._first:
            self._now = LoadedRules(good=await self._remembered())
        rules = list(self._remediers.cache.values())
        good = still_there(self._now.good, rules, self._node_keys)
        want = wanted(rules, self._ledger.following(), self._node_keys)
        faults = await self._engine.faults(list(want.newest.values()))
        refused = {**faults, **want.refused}
        sizes = await self._sizes(want, good, refused)
        self._oversized = sizes.refused
        refused |= self._oversized
        for _ in range(MOST_LOADS):
            requested = to_load(want, good, refused)
            report = await self._load(requested)
            if not (rejections := refusals(want, report.rejected)):
                break
            refused |= await self._blame(want, good, rejections)
        now = outcome(rules, want, good, requested, report.rejected, refused)
        if self._first:
            cache, at = self._remediers.cache, self._clock.now()
            await self._disputes.restore(now.running, cache, self._digests, at)
        concerned = {*self._now.generations, *now.generations}
        self._adopt(now)
        await self._tell_accepted(want, sizes.accepted)
        await self._reach.follow(rules)
        await self._tell(rules)
        await self.refresh_disputes()
        for name in concerned:
            self._changed(name)
        self.loaded.set()
        for callback in self.on_load:
            callback()

    async def _sizes(
        self, want: SelectedRules, good: Good, refused: Mapping[str, str]
    ) -> SizeVerdicts:
        """Check how many nodes the new versions would match."""
        known = {id_of(rule) for rule in good.values()}
        versions = to_load(want, good, refused)
        new = {
            rule.metadata.name: rule
            for id_, rule in want.newest.items()
            if id_ in versions and id_ not in known
        }
        if not new:
            return SizeVerdicts()
        others = {
            rule.metadata.name: rule
            for id_, rule in versions.items()
            if rule.metadata.name not in new and id_ not in want.frozen
        }
        return await self.size_limit.judge(new, others)

    async def _load(self, rules: Mapping[str, NodeRemedier]) -> LoadReport:
        """Load the rules, previously good ones first: they get the space if there is not enough for
        all.
        """
        good = self._now.good
        order = sorted(rules, key=lambda id_: (rules[id_].metadata.name not in good, id_))
        return await self._engine.load([RuleVersion(id_, rules[id_]) for id_ in order])

    async def _blame(
        self, want: SelectedRules, good: Good, rejections: dict[str, str]
    ) -> dict[str, str]:
        """Return the rules to reject: only the new versions that make good rules fail, if there are
        such.
        """
        harmed = {name for name in rejections if name in good and id_of(good[name]) in want.newest}
        if not harmed:
            return rejections
        old = {id_of(rule) for rule in good.values()}
        new = [rule for id_, rule in want.newest.items() if id_ not in old]
        there = [rule for name, rule in good.items() if name not in want.off]
        loop = asyncio.get_running_loop()
        cause = await loop.run_in_executor(None, blamed, there, new)
        return cause or rejections

    def _adopt(self, now: LoadedRules) -> None:
        self._first = False
        self._now = now
        self._active = {id_of(rule): rule for rule in now.running.values()}
        self._matches.keep(now.running.keys())
        self._digests.keep(now.running.values())
        self._reported = {
            name: reported for name, reported in self._reported.items() if name in now.generations
        }
        self.follows_time = any(map(_follows_time, self._active.values()))
        log.info(
            "rules loaded",
            extra={
                "active": len(self._active),
                "frozen": len(now.taken) - len(self._active),
                "refused": len(now.why),
            },
        )

    async def _remembered(self) -> dict[str, NodeRemedier]:
        """Return the last good versions from before our start, by name; wait until they are read.

        Without them a good rule with a rejected newest version would be unloaded.
        """
        while self.remember is not None:
            try:
                remembered = await self.remember()
                return {rule.metadata.name: rule for rule in remembered.values()}
            except Forbidden as error:
                log.error("last good rules cannot be read", extra={"why": str(error)})
                return {}
            except KubeError as error:
                log.warning("last good rules are not read yet", extra={"why": str(error)})
                await self._clock.sleep(RETRY_SECONDS)
        return {}

    async def _tell(self, rules: Iterable[NodeRemedier]) -> None:
        """Emit a Warning on each rejected rule, once per version and reason, and at most MOST_TOLD:
        each rule's status has it anyway.
        """
        new = []
        for rule in rules:
            name = rule.metadata.name
            key = (rule.metadata.generation, self._now.why.get(name, ""))
            if key[1] and self._reported.get(name) != key:
                self._reported[name] = key
                new.append(rule)
        for rule in new[:MOST_REPORTED]:
            why = self._now.why[rule.metadata.name]
            log.warning("rule refused", extra={"rule": rule.metadata.name, "why": why})
            await self._warn(rule, "RuleRejected", why)
        if len(new) > MOST_REPORTED:
            log.warning("more rules refused", extra={"rules": len(new) - MOST_REPORTED})

    async def _tell_accepted(self, want: SelectedRules, accepted: Mapping[str, str]) -> None:
        """Report who accepted the blast radius of a version that is loaded for the first time.

        It is read from the stored rule, since anybody may request a review from admission.
        """
        for rule in want.newest.values():
            why = accepted.get(rule.metadata.name, "")
            if not why or self._now.running.get(rule.metadata.name) is not rule:
                continue
            log.warning("blast radius accepted", extra={"rule": rule.metadata.name, "why": why})
            await self._warn(rule, "BlastRadiusAccepted", why)

    async def _warn(self, rule: NodeRemedier, reason: str, message: str) -> None:
        about = {
            "kind": "NodeRemedier",
            "api_version": rule.api_version,
            "name": rule.metadata.name,
            "uid": rule.metadata.uid,
        }
        await self._recorder.emit(about, "Warning", reason, message)

    async def refresh_disputes(self) -> None:
        """Check which rules the engines disagree about: those may not act until the dispute is
        cleared.
        """
        running = self._now.running
        moved = await self._disputes.refresh(running, self._remediers.cache, self._clock.now())
        for name in (*moved.new, *moved.ended):
            self._changed(name)
        for name in moved.new:
            await self._warn(running[name], "EngineDisagreement", self._disputes.why(name))

    # -- noticing --------------------------------------------------------------------------------

    def _rule_changed(self, name: str, old: Any, new: Any) -> None:
        if old is None or new is None or old.metadata.generation != new.metadata.generation:
            self._dirty.set()
        elif name in self._oversized and accepted_nodes(old) != accepted_nodes(new):
            self._dirty.set()  # an annotation is no new generation
        elif new.spec == old.spec:
            new.spec = old.spec  # the older version stays loaded: share its spec
        self._changed(name)

    def _job_changed(
        self, name: str, old: RemedyOperationJob | None, new: RemedyOperationJob | None
    ) -> None:
        self._ledger.changed(old, new)
        job = new or old
        reference = job.spec.remedier if job is not None else None
        if reference is None:
            return
        if old is None or new is None or old.status.phase is not new.status.phase:
            self._changed(reference.name)
        # A job of a version that is not loaded could not be assessed.
        version = rule_id(reference.name, reference.generation)
        if new is not None and not self.is_loaded(version) and self._ledger.follows(name):
            self._dirty.set()

    def _changed(self, name: str) -> None:
        for callback in self.on_standing:
            callback(name)


def _follows_time(rule: NodeRemedier) -> bool:
    names = {
        leaf.name
        for member in rule.spec.when.leaves()
        for leaf in ([member.leaf] if isinstance(member, AbsentLeaf) else [member])
        if isinstance(leaf, FactLeaf)
    }
    return bool(names & (OF_TIME | OF_THE_FLEET))
