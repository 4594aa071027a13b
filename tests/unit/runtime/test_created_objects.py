"""Every place of our programs that makes an object says how the object ends.

Objects that are about a node go with their Node: by an ownerReference that the garbage collector of
Kubernetes heeds, or by whoever sweeps them. All others are bounded: one of a name, or deleted by a
rule that is named here with the test that shows it. A new place fails here until it is listed.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from support.named_tests import DEFINED

ROOT = Path(__file__).parents[3]
PACKAGES = ("agent", "captain", "defender", "machine", "remedy", "kubenode/runtime")


@dataclass(frozen=True, slots=True)
class Ending:
    """kind  of the object
    how   it ends
    test  node id of a test that shows it; "" where nothing of ours has to be done
    """

    kind: str
    how: str
    test: str = ""


SERVER = "the API server deletes Events after their time"
NOT_STORED = "an API server answers it and stores nothing"
UNIT, INTEGRATION = "tests/unit", "tests/integration"
ENDINGS: dict[str, Ending] = {
    # About a node: they go with it.
    "agent/heartbeat.py::Heartbeat._renew": Ending(
        "Lease",
        "its Node owns it; one that was left is swept",
        f"{UNIT}/remedy/test_agent_leases.py::test_a_lease_of_an_agent_gets_its_node_as_owner",
    ),
    "remedy/assignments/writer.py::AssignmentWriter._create": Ending(
        "AgentAssignment",
        "its Node owns it",
        f"{UNIT}/remedy/test_assignments.py::"
        "test_an_assignment_is_made_for_an_agent_and_goes_with_its_node",
    ),
    "remedy/noderecord/store.py::NodeRecords._write": Ending(
        "NodeRecord",
        "its Node owns it",
        f"{UNIT}/remedy/test_node_record.py::test_a_record_is_owned_by_its_node",
    ),
    "machine/secretaccess/controller.py::SecretAccess._apply": Ending(
        "Role, RoleBinding",
        "its Machine owns it",
        f"{INTEGRATION}/machine/test_secret_access.py::"
        "test_the_rights_belong_to_the_machine_and_go_with_it",
    ),
    "remedy/hostprobes/controller.py::Asker._create": Ending(
        "HostProbe",
        "it is deleted ten minutes after it was asked",
        f"{UNIT}/remedy/test_probes.py::test_questions_are_removed_after_ten_minutes_and_counted",
    ),
    "remedy/hostprobes/desk.py::ProbeService._call_witnesses": Ending(
        "HostProbe",
        "it is deleted ten minutes after it was asked",
        f"{UNIT}/remedy/test_probes.py::test_questions_are_removed_after_ten_minutes_and_counted",
    ),
    "remedy/hostdoctor/writer.py::HostEventWriter._write": Ending(
        "HostEvent",
        "it is closed when its Node is gone, and deleted a day later",
        f"{UNIT}/hostdoctor/test_step.py::"
        "test_a_closed_event_goes_a_day_after_it_was_last_heard_of",
    ),
    "remedy/remedier/controller.py::Remedier._create": Ending(
        "RemedyOperationJob",
        "it closes when its Node is gone, and is deleted after its TTL, or among too many",
        f"{UNIT}/remedy/test_step.py::"
        "test_a_closed_job_is_deleted_in_time_and_a_finalizer_goes_first",
    ),
    "defender/server/store.py::PermitStore._create": Ending(
        "Permit",
        "it is released with its holder, and deleted when no limit looks back so far",
        f"{INTEGRATION}/defender/test_store_contract.py::"
        "test_released_permits_are_forgotten_when_no_limit_looks_back",
    ),
    "remedy/handover/access.py::Handovers._make": Ending(
        "an object of a template",
        "its job takes it back, or the object that the template names owns it",
        f"{UNIT}/remedy/test_handover.py::"
        "test_an_object_is_made_once_and_taken_back_wherever_we_die",
    ),
    "machine/bootstrap/tokens.py::Tokens.make": Ending(
        "Secret",
        "its Machine owns it; it is deleted once its agent has joined, or when it expires",
        f"{UNIT}/machine/test_tokens.py::"
        "test_dying_at_any_act_leaves_no_token_behind_and_ends_the_same",
    ),
    "machine/machineset/act.py::SetActs.create": Ending(
        "Machine",
        "its MachineSet owns it",
        f"{INTEGRATION}/machine/machineset/test_sets.py::"
        "test_a_set_takes_its_own_back_and_lets_go_what_it_asks_for_no_more",
    ),
    "machine/nodesets/controller.py::ConversionActs._create": Ending(
        "MachineSet, MachineClass",
        "its NodeSet or NodeClass owns it",
        f"{UNIT}/machine/nodesets/test_conversion.py::"
        "test_converted_objects_belong_to_their_source",
    ),
    "machine/nodesets/nodes.py::NodeMachines._make": Ending(
        "Machine",
        "it is deleted with its Node, which stays until then",
        f"{UNIT}/machine/nodesets/test_step.py::"
        "test_a_deleted_node_stays_until_its_instance_is_gone",
    ),
    "machine/clusterapi/adoption.py::Adoption._do": Ending(
        "Machine",
        "it is deleted with the Machine of Cluster API",
        f"{UNIT}/machine/clusterapi/test_step.py::test_ours_is_released_when_theirs_is_gone",
    ),
    "machine/inspection/inspector.py::ClusterInspector._job": Ending(
        "Job",
        "its MachineComponentSet owns it; Kubernetes deletes it after its TTL",
        f"{UNIT}/machine/inspection/test_jobs.py::"
        "test_the_job_belongs_to_its_set_ends_in_time_and_is_taken_away",
    ),
    "agent/identity/issuance.py::_ask": Ending(
        "CertificateSigningRequest",
        "Kubernetes deletes it, a day after it was asked for at the latest",
    ),
    # Of a rule, or one of a name.
    "remedy/registry/revisions.py::Revisions._create": Ending(
        "ControllerRevision",
        "its rule owns it; two of a rule are kept",
        f"{UNIT}/registry/test_last_good_version.py::"
        "test_only_two_good_versions_of_a_rule_are_kept_and_each_once",
    ),
    "kubenode/runtime/kube/configmaps.py::ConfigMapStore.write": Ending(
        "ConfigMap",
        "one of the restore, one of the orphans, whose records are bounded",
        f"{UNIT}/machine/orphans/test_collector.py::test_a_record_goes_when_its_instance_is_gone",
    ),
    "kubenode/runtime/lease.py::LeaderElection._take": Ending("Lease", "one of each program"),
    "kubenode/runtime/tls/keeper.py::CertificateKeeper._shared": Ending(
        "Secret", "one of each webhook"
    ),
    "defender/server/pause_edits.py::_ensure_policy": Ending(
        "DefenderPolicy", "one, by the name `default`"
    ),
    "defender/server/reporter.py::PolicyReporter.ensure_policy": Ending(
        "DefenderPolicy", "one, by the name `default`"
    ),
    # Kubernetes ends them.
    "agent/nodestatus/events.py::EventTeller._write": Ending("Event", SERVER),
    "remedy/job/notices.py::Notices.act": Ending("Event", SERVER),
    "kubenode/runtime/recorder.py::EventRecorder._create_or_count": Ending("Event", SERVER),
    "agent/identity/issuance.py::works_as": Ending("SelfSubjectReview", NOT_STORED),
    "kubenode/runtime/kube/reviews.py::ReviewClient.send": Ending("a review", NOT_STORED),
    "kubenode/runtime/drain/evictor.py::PodEvictor.evict.evict": Ending("Eviction", NOT_STORED),
    # In a member cluster.
    "captain/members/client.py::_replace": Ending(
        "of a payload",
        "the release that put it back deletes it, or a person does",
        f"{INTEGRATION}/captain/test_stolen_credential.py::"
        "test_the_port_applies_replaces_and_deletes_on_a_real_server",
    ),
    "captain/members/probe.py::_find_missing": Ending("SelfSubjectRulesReview", NOT_STORED),
}


@cache
def places() -> dict[str, int]:
    """Each call of `create` of a client, with its line."""
    found: dict[str, int] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for name, line in calls_in(path.read_text()):
                found[f"{path.relative_to(ROOT)}::{name}"] = line
    return found


def calls_in(source: str) -> Iterator[tuple[str, int]]:
    yield from _walk(ast.parse(source), [])


def _walk(node: ast.AST, inside: list[str]) -> Iterator[tuple[str, int]]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        inside = [*inside, node.name]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        of = ast.unparse(node.func.value).rpartition(".")[2]
        if node.func.attr == "create" and of in ("kube", "_kube"):
            yield ".".join(inside), node.lineno
    for child in ast.iter_child_nodes(node):
        yield from _walk(child, inside)


@pytest.mark.exhaustive
def test_every_place_that_makes_an_object_says_how_it_ends() -> None:
    assert sorted(places()) == sorted(ENDINGS)


@pytest.mark.parametrize("place", sorted(ENDINGS))
def test_an_ending_is_shown_by_a_test_unless_kubernetes_or_its_name_bounds_it(place: str) -> None:
    ending = ENDINGS[place]
    assert ending.kind and ending.how
    if ending.test:
        file, _, name = ending.test.partition("::")
        assert name in DEFINED.findall((ROOT / file).read_text()), ending.test


def test_a_new_place_is_found() -> None:
    source = "class A:\n    async def b(self):\n        await self._kube.create(path, body)\n"
    assert [name for name, _ in calls_in(source)] == ["A.b"]
