"""What a health check of Cluster API asks for: whose host, what rules see, what it is told."""

from typing import Any

import pytest
from support.clock import T0
from support.remedy_builders import an_object

from kubenode.api.v1alpha1 import JobPhase, KubeNodeRemediation, RemedyOperationJob
from kubenode.api.v1alpha1.hostevent import HostEvent, HostEventPhase
from kubenode.api.v1alpha1.remediation import KubeNodeRemediationStatus, RemediationPhase
from remedy.hostdoctor.nodes import Resolution, ResolutionReason
from remedy.hostdoctor.report import ReportedHost
from remedy.hostdoctor.step import step
from remedy.remediation.step import SCOPE, OwnerMachine, build_report, host_of, owner_of, status_of

OWNER = OwnerMachine("fleet", "w-7", "m-1", "v1beta2")
HOST = ReportedHost(provider_id="aws:///eu-1a/i-7", names=("worker-7",))


def request(**owner: str) -> KubeNodeRemediation:
    reference = {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Machine",
        "name": "w-7",
        "uid": "m-1",
    }
    meta = {
        "name": "w-7",
        "namespace": "fleet",
        "uid": "r-1",
        "creationTimestamp": T0,
        "ownerReferences": [reference | owner],
    }
    spec = {"severity": "Critical"}
    return KubeNodeRemediation.model_validate({"metadata": meta, "spec": spec})


def machine(uid: str = "m-1", node: str = "worker-7") -> dict[str, Any]:
    found: dict[str, Any] = {"metadata": {"uid": uid}, "spec": {"providerID": "aws:///eu-1a/i-7"}}
    return found | ({"status": {"nodeRef": {"name": node}}} if node else {})


def an_event(node: str = "worker-7") -> HostEvent:
    found = Resolution(ResolutionReason.RESOLVED, "", node, "uid-7")
    return step(None, build_report(request(), HOST), found, T0, scope=SCOPE)


def job(phase: JobPhase, *events: str) -> RemedyOperationJob:
    made = an_object()
    made.metadata.name = "j-1"
    spec = made.spec.model_copy(update={"host_events": list(events)})
    status = made.status.model_copy(update={"phase": phase, "message": "drained"})
    return made.model_copy(update={"spec": spec, "status": status})


def test_the_owning_machine_is_read_and_nothing_else() -> None:
    assert owner_of(request()) == OWNER
    assert owner_of(request(apiVersion="cluster.x-k8s.io.example/v1")) is None
    assert owner_of(request(kind="MachineSet")) is None


def test_the_host_is_that_of_the_machine_of_this_uid_or_nobodys() -> None:
    assert host_of(OWNER, machine()) == HOST
    for owner, other in ((OWNER, None), (OWNER, machine("another")), (OWNER, machine(node=""))):
        assert host_of(owner, other) is None
    assert host_of(None, machine()) is None


def test_rules_see_it_as_an_open_event_of_the_templates_severity() -> None:
    event = an_event()
    assert (event.spec.source, event.spec.class_) == ("ClusterAPI", "Unhealthy")
    assert event.spec.severity == "Critical" and event.status.phase is HostEventPhase.ACTIVE
    assert event.spec.node.name == "worker-7"


def test_one_that_is_asked_for_again_is_another_event() -> None:
    again = request()
    again.metadata.uid = "r-2"
    assert build_report(again, HOST).external_id != build_report(request(), HOST).external_id


def said(*jobs: RemedyOperationJob) -> tuple[RemediationPhase | None, str]:
    status = status_of(KubeNodeRemediationStatus(), HOST, an_event(), jobs, T0)
    return status.phase, status.job


EVENT = an_event().metadata.name


@pytest.mark.parametrize(
    ("jobs", "phase", "name"),
    [
        ([], RemediationPhase.WAITING, ""),
        ([job(JobPhase.RUNNING, EVENT)], RemediationPhase.REPAIRING, "j-1"),
        ([job(JobPhase.NEEDS_HUMAN, EVENT)], RemediationPhase.NEEDS_HUMAN, "j-1"),
        ([job(JobPhase.RUNNING)], RemediationPhase.WAITING, ""),
        ([job(JobPhase.FAILED, EVENT)], RemediationPhase.WAITING, "j-1"),
    ],
)
def test_it_says_which_job_is_at_it_or_what_it_waits_for(
    jobs: list[RemedyOperationJob], phase: RemediationPhase, name: str
) -> None:
    assert said(*jobs) == (phase, name)


def test_without_a_node_it_says_so_and_what_is_equal_is_not_written_again() -> None:
    nobody = status_of(KubeNodeRemediationStatus(), None, None, [], T0)
    assert "no node" in nobody.message and nobody.told_at == T0
    later = T0.replace(year=T0.year + 1)
    assert status_of(nobody, None, None, [], later) == nobody
