"""Sends the probes that rules need, and deletes old ones.

`ask` is called at each evaluation of a node while something is missing; `reconcile` follows each
probe until it is deleted.
"""

import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kubenode.api.v1alpha1.hostprobe import HostProbe
from kubenode.runtime.clock import Clock
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists, NotFound
from kubenode.runtime.kube.informer import Informer
from remedy.hostprobes.answer_writer import write
from remedy.hostprobes.desk import ProbeResult, ProbeService
from remedy.hostprobes.metrics import ANSWERED, EXISTED, FAILED, SENT, SILENT, ProbeMetrics
from remedy.hostprobes.schedule import (
    RETENTION,
    SENTENCES,
    UNANSWERED,
    ProbePlan,
    Wait,
    body,
    is_open,
    plan,
)
from remedy.hostprobes.shares import OpenQuestions, Shares, shares_of
from remedy.hostprobes.witnesses import part_of
from remedy.remedier.fleet import GROUP_LABELS

log = logging.getLogger(__name__)

PLURAL = HostProbe.resource.plural
NODE_INDEX = "node"
RulesByName = Mapping[str, Collection[str]]
"""Names of the rules that need each `probe.field`."""
NO_RULES: RulesByName = {}


@dataclass(slots=True)
class Asker:
    """Sends probes. `probes` must have the index NODE_INDEX.

    desk: answers the probes that the operator itself can answer
    """

    kube: Kube
    probes: Informer[HostProbe]
    clock: Clock
    fence: Fence
    metrics: ProbeMetrics
    desk: ProbeService
    _open: OpenQuestions = field(default_factory=OpenQuestions)
    _waits: dict[str, frozenset[tuple[str, Wait]]] = field(default_factory=dict)
    _settled: set[str] = field(default_factory=set)

    def noticed(self, name: str, old: HostProbe | None, new: HostProbe | None) -> tuple[str, ...]:
        """Map a change to the keys to reconcile, and count open probes so that no search is needed.

        The answer of a witness also concerns the probe that it was sent for.
        """
        if new is None or new.status.answered_at is not None:
            self._open.remove(name)
        else:
            self._open.add(name, new.spec.expires_at)
        return (name, *(part_of(new) if new is not None else ()))

    def forget(self, node: str) -> None:
        self._waits.pop(node, None)

    async def ask(
        self, node: str, agent: str, enforced: RulesByName, dry: RulesByName = NO_RULES
    ) -> datetime | None:
        """Send the probes that are due, each named `probe.field`; return when to come again, None
        for never.

        enforced: rules in a mode that acts that need each probe
        dry: rules in DryRun that need each probe
        """
        if not enforced and not dry:
            self.forget(node)
            return None
        now = self.clock.now()
        self._open.expire(now)
        first = await self._ask(node, agent, enforced, now, acts=True)
        dry_only = {name: rules for name, rules in dry.items() if name not in enforced}
        second = await self._ask(node, agent, dry_only, now, acts=False)
        self._tell(node, frozenset((*first.waits, *second.waits)))
        return min((at for at in (first.at, second.at) if at is not None), default=None)

    async def _ask(
        self, node: str, agent: str, names: RulesByName, now: datetime, *, acts: bool
    ) -> ProbePlan:
        if not names:
            return ProbePlan()
        rules = {rule for needing in names.values() for rule in needing}
        shares = shares_of(self._zone(node), rules, enforced=acts)
        probe_plan = plan(
            names,
            self.probes.by(NODE_INDEX, node),
            len(self._open),
            now,
            silent=self.desk.agent_is_silent(agent),
            room=self._open.room(shares),
        )
        for kind in probe_plan.ask:
            await self._create(node, agent, kind, now, shares)
        return probe_plan

    def _zone(self, node: str) -> str:
        known = self.desk.nodes.get(node)
        return known.metadata.labels.get(GROUP_LABELS["zone"], "") if known is not None else ""

    async def reconcile(self, name: str) -> Result:
        """Answer an open probe if the operator can; delete a probe ten minutes after it
        was sent.
        """
        probe = self.probes.get(name)
        if probe is None:
            self._settled.discard(name)
            return DONE
        now, end = self.clock.now(), probe.spec.expires_at
        self._count(probe, now)
        removed_at = (probe.metadata.creation_timestamp or end) + RETENTION
        if now >= removed_at:
            self.fence.check()
            with suppress(NotFound):
                await self.kube.delete(paths.custom(PLURAL, name), uid=probe.metadata.uid)
            return DONE
        if not is_open(probe, now):
            return Result(max(removed_at - now, timedelta(milliseconds=1)))
        finding = await self.desk.find(probe)
        if isinstance(finding, ProbeResult):
            self.fence.check()
            await write(self.kube, probe, finding.answer, finding.error, self.clock.now())
            finding = None
        remaining = end - self.clock.now()
        wait = remaining if finding is None else min(finding, remaining)
        return Result(max(wait, timedelta(milliseconds=1)))

    async def _create(
        self, node: str, agent: str, kind: str, now: datetime, shares: Shares
    ) -> None:
        made = body(node, agent, kind, now)
        name = made["metadata"]["name"]
        self.fence.check()
        self._open.add(name, now + UNANSWERED, shares)
        try:
            probe = await self.kube.create(paths.custom(PLURAL), made, decode=HostProbe.from_server)
            self.metrics.probes.labels(SENT).inc()
            await self.probes.wait_for(name, probe.metadata.resource_version)
        except AlreadyExists:
            self.metrics.probes.labels(EXISTED).inc()

    def _tell(self, node: str, waits: frozenset[tuple[str, Wait]]) -> None:
        """Count and log new waits: people should see that a limit is reached."""
        for kind, why in waits - self._waits.get(node, frozenset()):
            self.metrics.waits.labels(why).inc()
            if why in (Wait.NODE_LIMIT, Wait.LIMIT, Wait.SHARE):
                extra = {"node": node, "probe": kind, "why": SENTENCES[why]}
                log.warning("question to a host kept back", extra=extra)
        self._waits[node] = waits

    def _count(self, probe: HostProbe, now: datetime) -> None:
        if probe.metadata.name in self._settled or is_open(probe, now):
            return
        self._settled.add(probe.metadata.name)
        silent = probe.status.answered_at is None
        outcome = SILENT if silent else FAILED if probe.status.error else ANSWERED
        self.metrics.probes.labels(outcome).inc()
