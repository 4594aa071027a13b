"""What an agent has to read: named at once when it is asked, else with as few writes as can be."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from support.agent_jobs import an_agent_job, asked
from support.clock import T0, FakeClock
from support.remedy_facts import a_probe
from support.remedy_hand import NOWHERE, HandFed

from kubenode.api.v1alpha1 import AgentAssignment, HostProbe, RemedyOperationJob
from kubenode.api.v1alpha1.agentassignment import (
    MOST_JOBS,
    MOST_PROBES,
    AgentAssignmentSpec,
    AssignedJob,
)
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import MERGE_PATCH, Kube, as_dict
from kubenode.runtime.kube.objects import Node, structs
from remedy import mappers
from remedy.assignments.content import LATER, MOST_OLD_PROBES, due, wanted
from remedy.assignments.writer import CREATED_AT_ONCE, AssignmentWriter
from remedy.remedier.leases import AGENT_LEASES, Renewal, decode_renewal

NOW = timedelta(0)
NOTHING = AgentAssignmentSpec()


def a_job(name: str = "j", phase: str = "Pending", request: str = "", **step: Any) -> Any:
    body = an_agent_job(name, "n1", "containerd.service")
    status: dict[str, Any] = {"phase": phase}
    if request:
        status = {**asked("boot-1", request_id=request), "phase": phase}
        status["steps"][0].update(step)
    return RemedyOperationJob.from_user({**body, "status": status})


def named(*jobs: tuple[str, str], probes: tuple[str, ...] = ()) -> AgentAssignmentSpec:
    assigned = [AssignedJob(name=name, request=request) for name, request in jobs]
    return AgentAssignmentSpec(jobs=assigned, probes=[*probes])


# -- what is named


def test_open_jobs_are_named_with_their_newest_request_and_closed_ones_are_not() -> None:
    jobs = [a_job("b", "Running", "r0s1a1"), a_job("a"), a_job("c", "Succeeded")]
    assert wanted(jobs, [], NOTHING, T0) == named(("a", ""), ("b", "r0s1a1"))


def test_an_answered_request_stays_named_until_there_is_a_newer_one() -> None:
    done = a_job("j", "Verifying", "r0s0a1", state="Done")
    assert wanted([done], [], named(("j", "r0s0a1")), T0) == named(("j", "r0s0a1"))
    newer = a_job("j", "Running", "r1s0a1")
    assert wanted([newer], [], named(("j", "r0s0a1")), T0) == named(("j", "r1s0a1"))


def test_a_step_of_the_operator_is_no_request() -> None:
    job = a_job("j", "Running", "r0s0a1", by="Operator")
    assert wanted([job], [], NOTHING, T0) == named(("j", ""))


def test_open_questions_to_the_agent_are_named_and_no_others() -> None:
    answered = a_probe("clock", T0, answer={}, answeredAt=T0.isoformat())
    probes = [a_probe(kind, T0) for kind in ("disk", "power", "ready", "peers", "host")]
    found = wanted([], [*probes, answered], NOTHING, T0)
    assert found.probes == sorted(p.metadata.name for p in (probes[0], probes[4]))
    assert wanted([], probes, NOTHING, T0 + timedelta(seconds=30)) == NOTHING


def test_a_question_to_a_witness_is_named() -> None:
    probe = a_probe("peers", T0).model_dump(by_alias=True, mode="json")
    probe["spec"]["args"] = {"address": "10.0.0.1"}
    assert wanted([], [HostProbe.from_user(probe)], NOTHING, T0).probes


def test_the_object_stays_small_and_requests_come_first() -> None:
    jobs = [a_job(f"j{i:03d}") for i in range(200)] + [a_job("z", "Running", "r0s0a1")]
    found = wanted(jobs, [], NOTHING, T0)
    assert len(found.jobs) == MOST_JOBS
    assert found.jobs[-1] == AssignedJob(name="z", request="r0s0a1")
    assert MOST_PROBES >= MOST_OLD_PROBES


# -- how soon


def test_a_request_and_a_question_are_written_at_once() -> None:
    assert due(NOTHING, named(("j", "r0s0a1"))) == NOW
    assert due(named(("j", "r0s0a1")), named(("j", "r1s0a1"))) == NOW
    assert due(named(probes=("p1",)), named(probes=("p1", "p2"))) == NOW


def test_what_no_agent_waits_for_is_written_later_or_not_at_all() -> None:
    assert due(NOTHING, named(("j", ""))) == LATER
    assert due(named(("j", "r0s0a1")), NOTHING) == LATER
    assert due(named(probes=("p1",)), NOTHING) is None
    old = tuple(f"p{i:02d}" for i in range(MOST_OLD_PROBES + 1))
    assert due(named(probes=old), NOTHING) == LATER
    assert due(named(("j", "r0s0a1")), named(("j", "r0s0a1"))) is None


# -- the writer


class AssignmentApi(Kube):
    """Creates and patches assignments straight into the informer."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(NOWHERE, clock=clock)
        self.assignments: HandFed[AgentAssignment] = NOWHERE
        self.bodies: list[dict[str, Any]] = []

    async def create(
        self,
        path: str,
        body: Any,
        decode: Callable[[bytes], Any] = as_dict,
        query: Any = None,
    ) -> Any:
        self.bodies.append(body)
        made = {**body, "metadata": {**body["metadata"], "resourceVersion": "1"}}
        return self.assignments.put(made)

    async def patch(
        self,
        path: str,
        body: Any,
        content_type: str = MERGE_PATCH,
        decode: Callable[[bytes], Any] = as_dict,
        query: Any = None,
    ) -> Any:
        self.bodies.append(body)
        have = self.assignments.cache[path.rsplit("/", 1)[-1]].to_dict()
        assert body["metadata"]["resourceVersion"] == have["metadata"]["resourceVersion"]
        version = str(int(body["metadata"]["resourceVersion"]) + 1)
        metadata = {**have["metadata"], **body["metadata"], "resourceVersion": version}
        return self.assignments.put({**have, "metadata": metadata, "spec": body["spec"]})


class Fleet:
    """A writer over caches that the test feeds; agents have the names of their nodes."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.api = AssignmentApi(self.clock)

        def fed(kind: Any) -> HandFed[Any]:
            return HandFed(self.api, f"/{kind.__name__}", kind.from_server, clock=self.clock)

        self.nodes: HandFed[Node] = HandFed(
            self.api, paths.nodes(), structs(Node), clock=self.clock
        )
        self.leases: HandFed[Renewal] = HandFed(
            self.api, paths.leases(AGENT_LEASES), decode_renewal, clock=self.clock
        )
        self.jobs: HandFed[RemedyOperationJob] = fed(RemedyOperationJob)
        self.probes: HandFed[HostProbe] = fed(HostProbe)
        self.assignments: HandFed[AgentAssignment] = fed(AgentAssignment)
        self.api.assignments = self.assignments
        mappers.index(self.jobs)
        self.writer = AssignmentWriter(
            self.api,
            self.nodes,
            self.jobs,
            self.probes,
            self.leases,
            self.assignments,
            self.clock,
            AlwaysLeader(),
            spread=lambda: 0.5,
        )

    def host(self, name: str = "n1", uid: str = "uid-1") -> None:
        self.nodes.put({"metadata": {"name": name, "uid": uid, "resourceVersion": "1"}})
        self.leases.put(
            {"metadata": {"name": name, "namespace": AGENT_LEASES, "resourceVersion": "1"}}
        )

    def job(self, job: RemedyOperationJob) -> None:
        self.jobs.put(job.to_dict())

    async def look(self, agent: str = "n1") -> Result:
        return await self.writer.reconcile(agent)

    @property
    def spec(self) -> AgentAssignmentSpec:
        return self.assignments.cache["n1"].spec


async def a_fleet() -> Fleet:
    fleet = Fleet()
    fleet.host()
    await fleet.look()
    return fleet


async def test_an_assignment_is_made_for_an_agent_and_goes_with_its_node() -> None:
    fleet = await a_fleet()
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "uid-1"}
    assert fleet.api.bodies[0]["metadata"]["ownerReferences"] == [owner]
    assert fleet.spec == NOTHING
    assert await fleet.look() == DONE
    assert len(fleet.api.bodies) == 1


async def test_no_assignment_is_made_when_no_agent_lives_or_its_node_is_unknown() -> None:
    fleet = Fleet()
    fleet.nodes.put({"metadata": {"name": "n1", "uid": "uid-1", "resourceVersion": "1"}})
    await fleet.look("n1")
    fleet.leases.put(
        {"metadata": {"name": "n2", "namespace": AGENT_LEASES, "resourceVersion": "1"}}
    )
    await fleet.look("n2")
    assert fleet.api.bodies == []


async def test_an_assignment_gets_a_new_owner_when_its_node_is_registered_again() -> None:
    fleet = await a_fleet()
    fleet.host(uid="uid-2")
    await fleet.look()
    assert fleet.api.bodies[-1]["metadata"]["ownerReferences"][0]["uid"] == "uid-2"


async def test_a_job_with_one_request_costs_two_writes_of_its_assignment() -> None:
    fleet = await a_fleet()
    for job in (a_job("j"), a_job("j", "AwaitingPermit"), a_job("j", "Running", "r0s0a1")):
        fleet.job(job)
        await fleet.look()
    assert fleet.spec == named(("j", "r0s0a1"))
    for phase in ("Verifying", "Verifying", "Succeeded"):
        fleet.job(a_job("j", phase, "r0s0a1", state="Done"))
        result = await fleet.look()
    assert result == Result(LATER)
    fleet.clock.step(LATER)
    await fleet.look()
    assert fleet.spec == NOTHING
    assert len(fleet.api.bodies) == 1 + 2


async def test_an_open_job_without_a_request_is_named_after_a_while() -> None:
    """The agent repairs nothing by itself while a job is open."""
    fleet = await a_fleet()
    fleet.job(a_job("j"))
    assert await fleet.look() == Result(LATER)
    fleet.clock.step(timedelta(seconds=5))
    assert await fleet.look() == Result(LATER - timedelta(seconds=5))
    fleet.clock.step(timedelta(seconds=10))
    await fleet.look()
    assert fleet.spec == named(("j", ""))


async def test_a_new_cluster_is_not_flooded_with_assignments() -> None:
    fleet = Fleet()
    for i in range(500):
        fleet.host(f"n{i}", f"uid-{i}")
        await fleet.look(f"n{i}")
    assert len(fleet.api.bodies) == CREATED_AT_ONCE


def test_a_renewed_lease_concerns_nobody() -> None:
    fleet = Fleet()
    renewal = decode_renewal(b'{"metadata":{"name":"n1","namespace":"kubenode-agents"}}')
    assert fleet.writer.of_lease("n1", None, renewal) == ("n1",)
    assert fleet.writer.of_lease("n1", renewal, renewal) == ()
