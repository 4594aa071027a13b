"""The Remedy operator: wires its informers and controllers. Its caller provides the external
interfaces.

It has two rings of parts (kubenode.runtime.process): the ground ring follows the API server and
runs on every replica, so that a new leader starts with warm caches; the parts above it decide and
act, and start once the lease is held.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from defender.client import Permits
from kubenode.api.v1alpha1 import (
    RemedyOperationJob,
)
from kubenode.providers.registry import Providers
from kubenode.runtime.audit import SILENT, Audit
from kubenode.runtime.clock import Clock
from kubenode.runtime.controller.controller import Controller, Mapper, Reconcile
from kubenode.runtime.controller.factory import build_controller
from kubenode.runtime.controller.queue import WorkQueue
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.disruption.guard import DisruptionGuard, never_frozen
from kubenode.runtime.disruption.permits import ApiPermits, PermitReader
from kubenode.runtime.disruption.wakes import HolderWakes, wake_by_name
from kubenode.runtime.drain.policy import Protection
from kubenode.runtime.fence import Fence, leads
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.informers import MakeInformer
from kubenode.runtime.process import Part
from kubenode.runtime.recorder import EventRecorder
from kubenode.runtime.telemetry.metrics import RuntimeMetrics as RuntimeMetrics
from remedy import mappers
from remedy.assignments.leases import AgentLeases
from remedy.assignments.writer import AssignmentWriter
from remedy.handover.access import Handovers
from remedy.hostdoctor.desk import HostEventService as EventDesk
from remedy.hostdoctor.metrics import HostDoctorMetrics as HostDoctorMetrics
from remedy.hostdoctor.sweep import OpenEvents, Sweep
from remedy.hostprobes.controller import Asker
from remedy.hostprobes.desk import ProbeService
from remedy.hostprobes.metrics import ProbeMetrics as ProbeMetrics
from remedy.hostprobes.schedule import unanswered
from remedy.informers import RemedyInformers
from remedy.job.audit import PART, JobAudit
from remedy.job.clockterm import ClockTerm
from remedy.job.cluster import ClusterEffects, ClusterWorld, DefenderLeave, JobEvents
from remedy.job.continuity import Hearing
from remedy.job.controller import JobController
from remedy.job.created_objects import HandoverAct
from remedy.job.leftmarks import AbandonedMarks
from remedy.job.metrics import HoldCollector
from remedy.job.metrics import JobMetrics as JobMetrics
from remedy.job.migration.access import PodAccess
from remedy.job.migration.acts import PodAct
from remedy.job.migration.cordon_index import CORDONING
from remedy.job.model import Job
from remedy.job.nodes import NodeAccess
from remedy.job.notices import COMPONENT, Notices
from remedy.job.power_record import FenceAct, PowerAct
from remedy.job.stepaccess import StepAccess
from remedy.job.steps.events import EventAct
from remedy.job.steps.node_keys import NodeKeyAct, NodeKeyActor
from remedy.job.steps.notify import NotifyAct
from remedy.job.steps.replace import ReplaceAct
from remedy.job.steps.rollback import RollbackAct
from remedy.job.store import JobStore
from remedy.job.traces import within_fault
from remedy.noderecord.store import NodeRecords, StoredEvents
from remedy.notify.notifications import Telling
from remedy.notify.teller import NotificationController
from remedy.outside import Outside
from remedy.plannedevents.access import EventAccess
from remedy.power.access import PowerAccess
from remedy.power.fencing import Fencing
from remedy.power.replacer import Replacing
from remedy.registry.engine import RuleEngineThread
from remedy.registry.metrics import EngineCollector
from remedy.registry.registry import RuleRegistry
from remedy.registry.reporter import RuleStatusReporter
from remedy.remediation.desk import Remediations
from remedy.remedier.build import agent_of
from remedy.remedier.choice import shortest_max_age
from remedy.remedier.controller import Remedier
from remedy.remedier.evaluator import Evaluator
from remedy.remedier.facts import FactStore
from remedy.remedier.group_jobs import GroupJobs, describe_group
from remedy.remedier.host_reports import HostReports
from remedy.remedier.judge import Judge
from remedy.remedier.keeper import Keeper
from remedy.remedier.metrics import FactCollector
from remedy.remedier.metrics import RemedierMetrics as RemedierMetrics
from remedy.remedier.unread_lines import UnreadLines
from remedy.remedier.unreadable import UnreadableReporter
from remedy.rollback.access import Rollbacks
from rules.diagnose import Diagnoser
from rules.nodekeys import NodeKeys

KEY_IS = {
    "agent-lease": "agent",
    "agent-assignment": "agent",
    "remedier": "node",
    "job": "job",
    "node-record": "node",
    "rule-status": "rule",
    "notifications": "job",
}
MANY = 16
"""Nodes waiting for an evaluation; more than this is a storm."""


@dataclass(frozen=True, slots=True)
class RemedySettings:
    """Settings of the operator.

    accept_single_engine: the policy `reference`: act although the second engine is unavailable
    protection: pods that leave a node late
    deciders, actors: nodes and jobs that are reconciled at the same time
    node_keys: labels and annotations that steps of rules may set on Nodes
    insight_url: address of Insight that notifications link to, "" for none
    """

    accept_single_engine: bool = False
    protection: Protection = field(default_factory=Protection)
    deciders: int = 64
    actors: int = 32
    node_keys: NodeKeys = field(default_factory=NodeKeys)
    insight_url: str = ""


class RemedyOperator:
    """Wires the operator.

    kube: client of the API server
    permits: client of Kube Defender, in process or over HTTP
    diagnoser: both rule engines; closed by `close`
    fence: the lease, checked before every write
    runtime: where informers and queues show their metrics, if anywhere
    informer: creates informers; `Informers` where other parts of the process share them
    audit: log of acts and refusals
    providers: providers of machines; without one only agents act on hosts. Not closed here.
    outside: receivers of notifications, and objects that jobs may create
    frozen: returns why no machine may be stopped or replaced now, "" if it may
    permit_reader: reads a Permit live; None: from the API server
    restored: returns why a restore of etcd stops acts, or may stop them, "" if none does
    unverified: returns why a restore of etcd is possible that was not checked yet, "" if none is;
        nothing acts meanwhile
    """

    def __init__(
        self,
        kube: Kube,
        permits: Permits,
        diagnoser: Diagnoser,
        fence: Fence,
        clock: Clock,
        registry: CollectorRegistry,
        settings: RemedySettings | None = None,
        runtime: RuntimeMetrics | None = None,
        informer: MakeInformer = Informer,
        audit: Audit = SILENT,
        providers: Providers | None = None,
        outside: Outside | None = None,
        frozen: Callable[[], str] = never_frozen,
        permit_reader: PermitReader | None = None,
        restored: Callable[[], str] = never_frozen,
        unverified: Callable[[], str] = never_frozen,
    ) -> None:
        self.guard = DisruptionGuard(
            permit_reader or ApiPermits(kube), fence, clock, audit, frozen, by=PART
        )
        self.settings = settings or RemedySettings()
        self._providers = providers or Providers()
        self.outside = outside or Outside()
        outside, insight_url = self.outside, self.settings.insight_url
        self.telling = Telling(outside.receivers, clock, registry, outside.cluster, insight_url)
        self._kube, self._fence, self._clock, self._runtime = kube, fence, clock, runtime
        self._audit, self._restored, self._unverified = audit, restored, unverified
        self.informers = informers = RemedyInformers(kube, clock, informer)
        informers.events.nodes.add_handler(UnreadLines(registry).changed)
        self.hosts = HostReports(
            informers, clock, self._enqueue_node, self._booted, self._clock_moved
        )
        self._concerns = mappers.JobMapper(informers.jobs)
        self.recorder = EventRecorder(kube, COMPONENT, clock)
        desk = ProbeService(
            kube,
            informers.nodes,
            informers.probes,
            self.hosts.node_ages,
            self.hosts.agent_ages,
            providers,
            clock,
            fence,
        )
        self.facts = FactStore(
            informers.nodes,
            lambda node: self.records.past(node),
            clock,
            (informers.events, informers.host_events),
            self.settings.accept_single_engine,
            unanswered(providers=providers is not None),
            self.hosts.node_ages,
            self.hosts.boots,
            self.hosts.clock_offsets.of,
            lambda node: desk.agent_is_silent(agent_of(node)),
            StoredEvents(informers.node_records),
            restored,
        )
        self.records = NodeRecords(
            kube,
            informers.node_records,
            informers.jobs,
            informers.nodes,
            DefenderLeave(permits),
            clock,
            fence,
            self.facts.events_until,
            informers.events.informers,
            restored,
        )
        self.group_jobs = GroupJobs(self.facts.fleet, self.records.past, self._list_nodes_of_rule)
        self.abandoned_marks = AbandonedMarks(kube, informers.nodes, informers.jobs, clock, fence)
        informers.jobs.add_handler(self.records.job_changed)
        informers.node_records.add_handler(self.records.record_changed)
        self.engine = RuleEngineThread(diagnoser, clock)
        remedier_metrics = RemedierMetrics(registry)
        unreadable = self.facts.unreadable
        self.evaluator = Evaluator(
            self.engine, self.facts.facts, clock, remedier_metrics, unreadable
        )
        self.rules = RuleRegistry(
            informers.remediers,
            informers.jobs,
            informers.nodes,
            self.engine,
            clock,
            self.recorder,
            accept_single_engine=self.settings.accept_single_engine,
            node_keys=self.settings.node_keys,
        )
        self.asker = Asker(kube, informers.probes, clock, fence, ProbeMetrics(registry), desk)
        self.decider = self._decider(remedier_metrics)
        self.remedier = self._remedier()
        remedier_metrics.unattended.set_function(lambda: float(len(self.decider.unattended)))
        self.decider.wake = self._enqueue_node
        self.decider.wake_job = lambda name: self.job.queue.add(name)
        self.assigning = self._assignments()
        self.owning = self._lease_owners()
        self.questions = self._controller("host-probe", self.asker.reconcile, 8)
        self.questions.watch(informers.probes, self.asker.noticed)
        self.host_doctor_metrics = HostDoctorMetrics(registry)
        self.desk = EventDesk(
            kube,
            informers.nodes,
            informers.host_events,
            clock,
            self.host_doctor_metrics,
            self.recorder,
        )
        informers.machines.add_handler(lambda name, old, new: self.desk.machine_changed(old, new))
        self.remediations = Remediations(
            kube, informers.requests, informers.jobs, self.desk, clock, fence
        )
        informers.host_events.add_handler(OpenEvents(self.host_doctor_metrics).changed)
        self.sweep = self._sweep()
        self.keeper = self._keeper()
        self.recording = self._recording()
        self._woken: set[str] = set()
        self.job = self._jobs(permits, JobMetrics(registry))
        kind = RemedyOperationJob.resource.kind
        self.wakes = HolderWakes("wakes", permits, wake_by_name(kind, self._wake))
        self.reports = RuleStatusReporter(
            kube, informers.remediers, self.rules, clock, fence, self.records
        )
        self.reporter = self._reporter()
        self.teller = self._teller()
        self.unreadable = self._unreadable()
        self.rules.on_load.append(self._rules_loaded)
        registry.register(EngineCollector(diagnoser))
        registry.register(FactCollector(self.facts))
        registry.register(HoldCollector(lambda: informers.jobs.cache.values(), clock))
        if runtime is not None:
            for each in informers.all:
                runtime.informer(each)
            runtime.recorder(self.recorder)

    @property
    def ground(self) -> list[Part]:
        """Parts that may run without the lease, and end last, so that deciding parts still get
        answers.
        """
        return [
            *self.informers.all,
            self.informers.events.attach.controller,
            *self.hosts.parts,
            self.recorder,
            self.evaluator,
            self.telling,
        ]

    @property
    def parts(self) -> list[Part]:
        """Parts that decide and act: started once the lease is held."""
        return [
            self.rules,
            self.remedier,
            self.job,
            self.reporter,
            self.questions,
            self.assigning,
            self.owning,
            self.sweep,
            self.remediations,
            self.keeper,
            self.unreadable,
            self.recording,
            self.wakes,
            self.teller,
            *self.telling.notifier.parts,
        ]

    def ready(self) -> bool:
        """Report whether the caches are current and the rules are loaded."""
        return self._sees() and self.rules.loaded.is_set()

    def well(self) -> bool:
        """Report whether this replica works: it is ready, or is a standby with current caches."""
        return self.ready() or (self._sees() and not leads(self._fence))

    def _sees(self) -> bool:
        """Report whether the needed caches are current."""
        return self.informers.fresh() and self.hosts.boots.known()

    def settled(self) -> bool:
        """Report whether it is ready and has evaluated every node."""
        return self.ready() and not len(self.remedier.queue) and not self.facts.unjudged

    def close(self) -> None:
        self.engine.close()

    def _controller(self, name: str, reconcile: Reconcile, workers: int) -> Controller:
        return build_controller(
            name,
            reconcile,
            clock=self._clock,
            fence=self._fence,
            metrics=self._runtime,
            workers=workers,
            queue=WorkQueue(self._clock, rate=2000.0, burst=20_000.0),
            key_is=KEY_IS.get(name, "key"),
        )

    def _describe_group(self, job: Job) -> str:
        """Return the group that a job is for, with its nodes that match now; "" for none."""
        group, rule = job.spec.group, job.spec.remedier
        if group is None or rule is None:
            return ""
        matching = {job.spec.node_name, *self.rules.matching(rule.name)}
        return describe_group(group, self.group_jobs.nodes(group, matching))

    def _list_nodes_of_rule(self, rule: str) -> list[str]:
        return [job.spec.node_name for job in self.informers.jobs.by(mappers.JOBS_OF_RULE, rule)]

    def _decider(self, metrics: RemedierMetrics) -> Remedier:
        return Remedier(
            self._kube,
            self.informers.nodes,
            self.informers.jobs,
            self.facts,
            self.evaluator,
            self.rules,
            self._clock,
            self._fence,
            self.recorder,
            metrics,
            self.asker,
            self.records,
            self.group_jobs,
        )

    def _remedier(self) -> Controller:
        remedier, concerned = self.decider, mappers.NodeMapper(self.facts)
        controller = self._controller("remedier", self._decide, self.settings.deciders)
        controller.watch(self.informers.nodes, remedier.noticed)
        self._watch_events(controller, concerned.event)
        controller.watch(self.informers.host_events, concerned.host_event)
        controller.watch(self.informers.probes, concerned.probe)
        controller.watch(self.informers.jobs, concerned.job)
        controller.watch(self.informers.node_records, concerned.record)
        return controller

    def _watch_events(self, controller: Controller, concerned: Mapper) -> None:
        """Enqueue the objects that Events concern. Decisions continue without Events."""
        for source in (self.informers.events.nodes, self.informers.events.pods):
            controller.watch(source, concerned, awaited=False)
        controller.follow(self.informers.events.attach, concerned)

    async def _decide(self, node: str) -> Result:
        """Reconcile the node once rules are loaded; loading them enqueues all nodes."""
        return await self.decider.reconcile(node) if self.rules.loaded.is_set() else DONE

    def _jobs(self, permits: Permits, metrics: JobMetrics) -> Controller:
        store = JobStore(self._kube, self.informers.jobs)
        nodes = NodeAccess(
            self._kube, self.informers.nodes, self.hosts.agent_ages, self.hosts.boots
        )
        pods = PodAccess(
            self._kube,
            self.settings.protection,
            self._clock,
            cordoning=lambda: len(self.informers.jobs.by(CORDONING, CORDONING)),
            direct=self.telling.direct,
        )
        judge = Judge(self.evaluator, self.rules, self.facts, self._clock)
        power = PowerAccess(self._providers, self._clock, self.guard, nodes)
        events = EventAccess(self.informers.host_events, self.informers.jobs, power, self._clock)
        replacing = Replacing(
            self._kube,
            self.informers.nodes,
            self._providers,
            self.hosts.boots.of,
            self.guard,
            nodes,
        )
        fencing = Fencing(self._kube)
        notices = Notices(self._kube, self._clock, self.telling, self._describe_group)
        others = Handovers(self._kube, self.outside.objects, self.telling.direct, self._clock)
        backs = Rollbacks(self._kube)
        hearing = Hearing(
            (self.informers.nodes, self.informers.jobs),
            (self.informers.node_leases, self.informers.agent_leases),
            self._clock,
        )
        self.step_access = StepAccess(
            readers={
                "createObject": others,
                "replace": replacing,
                "rollbackComponent": backs,
            },
            actors={
                EventAct: events,
                FenceAct: fencing,
                HandoverAct: others,
                NodeKeyAct: NodeKeyActor(nodes, self.settings.node_keys.refusal),
                NotifyAct: notices,
                PodAct: pods,
                PowerAct: power,
                ReplaceAct: replacing,
                RollbackAct: backs,
            },
        )
        job = JobController(
            jobs=store,
            world=ClusterWorld(
                self.facts,
                hearing,
                nodes,
                pods,
                judge,
                permits,
                power,
                self.decider.stronger,
                store,
                events,
                ClockTerm(self._clock),
                self.records,
                self._restored,
                self._unverified,
            ),
            effects=ClusterEffects(store, nodes),
            steps=self.step_access,
            leave=DefenderLeave(permits),
            recorder=JobEvents(self.recorder),
            metrics=metrics,
            clock=self._clock,
            fence=self._fence,
            busy=lambda: self.remedier.queue.news > MANY,
            woken=self._woken,
            audit=JobAudit(self._audit, self._clock),
        )
        named = within_fault(job.reconcile, self.informers.jobs.cache.get)
        controller = self._controller("job", named, self.settings.actors)
        controller.watch(self.informers.jobs, self._concerns.job)
        controller.watch(self.informers.nodes, self._concerns.node)
        self._watch_events(controller, self._concerns.event)
        controller.watch(self.informers.host_events, self._concerns.host_event)
        controller.watch(self.informers.probes, self._concerns.probe)
        controller.watch(self.informers.node_records, self._concerns.record)
        return controller

    def _recording(self) -> Controller:
        controller = self._controller("node-record", self._record, 8)
        self.records.changed = controller.queue.add
        controller.watch(self.informers.nodes, self.abandoned_marks.noticed)
        return controller

    async def _record(self, node: str) -> Result:
        """Reconcile the node's record, then the marks of jobs that are gone."""
        result = await self.records.reconcile(node)
        return await self.abandoned_marks.reconcile(node) if result is DONE else result

    def _reporter(self) -> Controller:
        controller = self._controller("rule-status", self.reports.reconcile, 2)
        self.reports.attach(controller.queue)
        return controller

    def _teller(self) -> Controller:
        teller = NotificationController(
            self._kube, self.informers.jobs, self.telling, self._clock, self._fence
        )
        controller = self._controller("notifications", teller.reconcile, 2)
        controller.watch(self.informers.jobs, teller.noticed)
        teller.attach(controller.queue)
        self.telling.notifier.on_end.append(lambda notice, end: self._enqueue_job(notice.job))
        return controller

    def _unreadable(self) -> UnreadableReporter:
        return UnreadableReporter(
            self.facts.unreadable, self.informers.kinds(), self._uid_of, self.recorder, self._clock
        )

    def _uid_of(self, node: str) -> str:
        known = self.informers.nodes.get(node)
        return known.metadata.uid if known is not None else ""

    def _sweep(self) -> Controller:
        sweep = Sweep(self.desk, self._clock, self._fence)
        controller = self._controller("host-events", sweep.reconcile, 8)
        controller.watch(self.informers.host_events)
        sweep.attach(controller.queue)
        return controller

    def _enqueue_job(self, job: str) -> None:
        """Enqueue a job that may wait for a notification."""
        if job in self.informers.jobs.cache:
            self.job.queue.add(job)

    def _assignments(self) -> Controller:
        writer = AssignmentWriter(
            self._kube,
            self.informers.nodes,
            self.informers.jobs,
            self.informers.probes,
            self.informers.agent_leases,
            self.informers.assignments,
            self._clock,
            self._fence,
        )
        controller = self._controller("agent-assignment", writer.reconcile, 8)
        writer.attach(controller)
        return controller

    def _lease_owners(self) -> Controller:
        leases = AgentLeases(
            self._kube,
            self.informers.nodes,
            self.informers.agent_leases,
            self.hosts.agent_ages,
            self._clock,
            self._fence,
            self._audit,
        )
        controller = self._controller("agent-lease", leases.reconcile, 2)
        leases.attach(controller)
        return controller

    def _keeper(self) -> Controller:
        keeper = Keeper(self._kube, self.informers.remediers, self.facts.wide, self._fence)
        controller = self._controller("inferred-facts", keeper.reconcile, 1)
        keeper.attach(controller.queue)
        return controller

    def _enqueue_node(self, node: str) -> None:
        """Enqueue a node and its jobs after other nodes, or time, changed its facts, which may be
        guards of the jobs.
        """
        self.remedier.queue.add(node)
        for job in self._concerns.of(node):
            self.job.queue.add(job)

    def _booted(self, agent: str) -> None:
        """Enqueue the agent's jobs after it reported another boot, which they may wait for."""
        for job in self._concerns.of_agent(agent):
            self.job.queue.add(job)

    def _clock_moved(self, agent: str) -> None:
        """Enqueue the node after its clock offset passed a bound in some rule. A Machine's agent
        has another name than its node: such a node is evaluated with its next change.
        """
        if self.informers.nodes.get(agent) is not None:
            self._enqueue_node(agent)

    def _wake(self, job: str) -> None:
        """Enqueue a job for which Kube Defender reserves a slot."""
        if job in self.informers.jobs.cache:
            self._woken.add(job)
            self.job.queue.add(job)

    def _rules_loaded(self) -> None:
        self.facts.rules_loaded(self.rules.loaded_rules())
        self.hosts.clock_offsets.rules_loaded(self.rules.loaded_rules().values())
        self.facts.shortest_max_age = shortest_max_age(self.rules.active().values())
        for node in mappers.latest_first(self.informers.nodes.cache.values(), self._clock.now()):
            self.remedier.queue.add_idle(node)
        for name, job in self.informers.jobs.cache.items():
            if not job.status.phase.closed:
                self.job.queue.add(name)
