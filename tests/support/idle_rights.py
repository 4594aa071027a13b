"""Rights of the chart that a cluster's first day does not use, and what needs them.

Each row names a test in which the same program does it. A right that no row has, and no act of the
newcomer's path, is to be taken away.
"""

from dataclasses import dataclass

from support.used_rights import Right

AGENT, CRDS = "kubenode-agents/kubenode-agent", "kubenode-system/kubenode-crds"
RULES = "kubenode-system/kubenode-rules"
DEFENDER, MACHINE = "kubenode-system/kubenode-defender", "kubenode-system/kubenode-machine"
REMEDY = "kubenode-system/kubenode-remedy"


@dataclass(frozen=True, slots=True)
class Idle:
    """verbs, resources  with spaces between; resources have `.GROUP` behind if not of the core
    test              in tests/integration
    """

    account: str
    verbs: str
    resources: str
    test: str

    def excuses(self, right: Right) -> bool:
        name = f"{right.resource}.{right.group}" if right.group else right.resource
        return (
            self.account == right.account
            and right.verb in self.verbs.split()
            and name in self.resources.split()
        )


IDLE: tuple[Idle, ...] = (
    # The first day has no receiver of the stream.
    Idle(
        REMEDY,
        "list watch",
        "permits.kubenode.io",
        "insight/test_program.py::test_outage_of_insight_loses_no_event",
    ),
    # An agent runs on a host of its own.
    Idle(
        AGENT,
        "get list watch",
        "remedyoperationjobs.kubenode.io",
        "agent/test_rights.py::test_it_reads_jobs_and_answers_its_own",
    ),
    Idle(
        AGENT,
        "patch",
        "remedyoperationjobs/status.kubenode.io",
        "agent/test_rights.py::test_it_answers_a_job_with_the_largest_status",
    ),
    Idle(
        AGENT,
        "get",
        "permits.kubenode.io",
        "agent/test_rights.py::test_it_reads_a_permit_by_its_name_and_no_more_of_permits",
    ),
    Idle(
        AGENT,
        "get list watch",
        "agentassignments.kubenode.io",
        "agent/test_assignment.py::"
        "test_an_agent_with_an_assignment_reads_what_it_names_and_watches_no_list",
    ),
    Idle(
        AGENT,
        "get list watch patch",
        "hostprobes.kubenode.io hostprobes/status.kubenode.io",
        "agent/test_agent.py::test_it_answers_its_questions_while_somebody_wants_to_know",
    ),
    Idle(
        AGENT,
        "list watch patch",
        "machines.kubenode.io machines/status.kubenode.io",
        "agent/test_components.py::test_a_machines_component_comes_to_its_host_and_is_told",
    ),
    Idle(
        AGENT,
        "get",
        "machinecomponents.kubenode.io configmaps",
        "agent/test_components.py",
    ),
    Idle(
        AGENT,
        "create patch",
        "leases.coordination.k8s.io",
        "agent/test_rights.py::test_it_makes_and_renews_its_own_lease",
    ),
    Idle(
        AGENT,
        "create patch",
        "events nodes/status",
        "agent/test_publishing.py::test_a_pod_of_the_daemonset_tells_the_same",
    ),
    # For the time of an upgrade; where packs are installed by value.
    Idle(
        CRDS,
        "create get update",
        "customresourcedefinitions.apiextensions.k8s.io namespaces",
        "chart/test_installing.py",
    ),
    Idle(
        RULES,
        "get create update",
        "noderemediers.kubenode.io",
        "chart/test_installing.py",
    ),
    # What others do to nodes, what goes wrong with permits, and the dashboard.
    Idle(
        DEFENDER,
        "get create patch",
        "events pods",
        "defender/test_guard_plane.py::test_deletions_above_the_limit_are_refused_with_a_sentence",
    ),
    Idle(
        DEFENDER,
        "get",
        (
            "nodes "
            "permits.kubenode.io "
            "remedyoperationjobs.kubenode.io "
            "machines.kubenode.io "
            "machinesets.kubenode.io "
            "machinecomponentsets.kubenode.io"
        ),
        "machine/test_disrupting.py::test_f12_kube_defender_frees_a_ghosts_slot_by_itself",
    ),
    Idle(
        DEFENDER,
        "delete patch",
        "permits.kubenode.io permits/status.kubenode.io",
        "defender/test_model.py",
    ),
    Idle(
        DEFENDER,
        "list",
        "leases.coordination.k8s.io hostprobes.kubenode.io",
        "defender/test_f15_control_path.py::test_f15_everything_freezes_and_thaws_by_itself",
    ),
    Idle(
        DEFENDER,
        "list watch",
        (
            "noderemediers.kubenode.io "
            "noderecords.kubenode.io "
            "machinecomponentsets.kubenode.io "
            "machines.kubenode.io "
            "machinesets.kubenode.io "
            "events "
            "poddisruptionbudgets.policy"
        ),
        "defender/test_dashboard_real.py",
    ),
    Idle(
        DEFENDER,
        "get list",
        "machines.kubenode.io leases.coordination.k8s.io",
        "defender/test_dashboard_front.py::"
        "test_first_glance_names_missing_leaders_and_agents_until_their_leases_are_renewed",
    ),
    Idle(
        DEFENDER,
        "get update create",
        "leases.coordination.k8s.io",
        "defender/test_redis_faults.py",
    ),
    Idle(
        DEFENDER,
        "create",
        (
            "tokenreviews.authentication.k8s.io "
            "subjectaccessreviews.authorization.k8s.io "
            "defenderpolicies.kubenode.io"
        ),
        "defender/test_auth_plane.py",
    ),
    # Hosts that come, change and go.
    Idle(
        MACHINE,
        "get create patch delete",
        "configmaps secrets",
        "machine/test_identity.py::test_a_token_a_certificate_a_lease_and_the_token_is_revoked",
    ),
    Idle(
        MACHINE,
        "get",
        "permits.kubenode.io",
        "machine/test_replaced.py::test_a_job_asks_for_another_machine_by_operation_and_its_permit_is_the_only_one",
    ),
    Idle(
        MACHINE,
        "get create patch",
        "configmaps",
        "runtime/test_restored_etcd.py::test_a_restored_etcd_freezes_who_ran_and_who_was_restarted_until_it_is_lifted",
    ),
    Idle(
        MACHINE,
        "get create patch",
        "events",
        "machine/test_certificates.py::test_every_check_has_a_request_that_it_denies",
    ),
    Idle(
        MACHINE,
        "patch approve",
        ("certificatesigningrequests/approval.certificates.k8s.io signers.certificates.k8s.io"),
        "machine/test_certificates.py::test_a_token_gives_one_certificate_and_the_certificate_the_next",
    ),
    Idle(
        MACHINE,
        "get patch delete",
        "nodes",
        "machine/machine/test_made_and_uninstalled.py::test_invariant_02_a_machine_is_made_with_its_token_and_goes_with_its_instance",
    ),
    Idle(
        MACHINE,
        "list",
        "volumeattachments.storage.k8s.io",
        "machine/machine/test_made_and_uninstalled.py::test_invariant_02_a_machine_is_made_with_its_token_and_goes_with_its_instance",
    ),
    Idle(
        MACHINE,
        "delete",
        "leases.coordination.k8s.io",
        "machine/machine/test_made_and_uninstalled.py::test_invariant_02_a_machine_is_made_with_its_token_and_goes_with_its_instance",
    ),
    Idle(
        MACHINE,
        "list create get",
        "pods pods/eviction statefulsets.apps poddisruptionbudgets.policy",
        "machine/test_disrupting.py::test_a_budget_is_honoured_and_named_with_the_pod_and_the_node_given_back",
    ),
    Idle(
        MACHINE,
        "get create update",
        "permits.kubenode.io permits/ask.kubenode.io",
        "machine/test_disrupting.py::test_f34_the_cordon_and_f33_the_slot_of_a_set_that_is_deleted_are_freed",
    ),
    Idle(
        MACHINE,
        "create patch",
        "roles.rbac.authorization.k8s.io rolebindings.rbac.authorization.k8s.io",
        "machine/test_secret_access.py::"
        "test_the_rights_are_put_right_when_somebody_edits_or_deletes_them",
    ),
    Idle(
        MACHINE,
        "get create",
        "jobs.batch",
        "machine/test_inspecting.py::test_a_job_runs_once_and_its_end_is_the_answer",
    ),
    Idle(
        MACHINE,
        "list",
        "machines.cluster.x-k8s.io",
        "machine/machineset/test_cluster_api.py::test_machines_are_adopted_by_their_label_and_released_with_theirs",
    ),
    Idle(
        MACHINE,
        "get create patch delete",
        (
            "machines.kubenode.io "
            "machines/status.kubenode.io "
            "machinesets.kubenode.io "
            "machinesets/status.kubenode.io "
            "machineclasses/status.kubenode.io"
        ),
        "machine/machineset/test_sets.py::test_a_set_is_scaled_out_and_in_by_autoscalers_words",
    ),
    # Sets of Nodes.
    Idle(
        MACHINE,
        "create patch",
        (
            "machinesets.kubenode.io "
            "machineclasses.kubenode.io "
            "nodesets/status.kubenode.io "
            "nodeclasses/status.kubenode.io"
        ),
        "machine/nodesets/test_node_sets.py::"
        "test_a_node_set_runs_scales_and_replaces_a_deleted_node",
    ),
    Idle(
        MACHINE,
        "get patch",
        (
            "machinecomponents.kubenode.io "
            "machinecomponents/status.kubenode.io "
            "machinecomponentsets.kubenode.io "
            "machinecomponentsets/status.kubenode.io"
        ),
        "machine/componentset/test_rollouts.py::test_a_set_installs_upgrades_and_completes",
    ),
    # Other faults than a worn disk, and other ways to heal.
    # The certificate of Host Doctor, which the chart leaves off by default.
    Idle(
        REMEDY,
        "get patch",
        "secrets",
        "registry/test_rights.py::test_the_operator_may_do_its_work_and_nothing_else",
    ),
    Idle(
        REMEDY,
        "get patch create",
        "events",
        "remedy/test_way.py",
    ),
    Idle(
        REMEDY,
        "get list",
        "persistentvolumeclaims persistentvolumes poddisruptionbudgets.policy",
        "remedy/test_migrating.py::test_pods_of_a_stateful_set_move_one_by_one",
    ),
    Idle(
        REMEDY,
        "delete",
        "pods",
        "remedy/test_migrating.py",
    ),
    Idle(
        REMEDY,
        "get patch list",
        (
            "deployments.apps "
            "replicasets.apps "
            "statefulsets.apps "
            "horizontalpodautoscalers.autoscaling"
        ),
        "remedy/test_migrating.py::test_with_surge_a_deployment_never_has_a_ready_pod_less",
    ),
    Idle(
        REMEDY,
        "list create delete",
        "controllerrevisions.apps",
        "registry/test_last_good.py::test_the_last_good_version_outlives_a_killed_operator",
    ),
    Idle(
        REMEDY,
        "create",
        "tokenreviews.authentication.k8s.io",
        "hostdoctor/test_delivering.py",
    ),
    Idle(
        REMEDY,
        "create",
        "subjectaccessreviews.authorization.k8s.io",
        "bundles/test_bundle_rights.py::test_downloading_needs_the_right_of_its_own",
    ),
    Idle(
        REMEDY,
        "get list patch delete",
        "machines.cluster.x-k8s.io",
        "remedy/test_replacing.py::test_cluster_api_deletes_a_machine_that_a_set_made",
    ),
    Idle(
        REMEDY,
        "get list delete",
        "nodeclaims.karpenter.sh",
        "remedy/test_replacing.py::test_karpenter_is_asked_by_deleting_the_claim_of_the_node",
    ),
    Idle(
        REMEDY,
        "get create patch delete",
        "hostevents.kubenode.io hostevents/status.kubenode.io",
        "hostdoctor/test_delivering.py::test_an_alert_is_stored_before_it_is_answered_and_completes",
    ),
    Idle(
        REMEDY,
        "create delete patch",
        "hostprobes.kubenode.io hostprobes/status.kubenode.io",
        "remedy/test_silent_host.py::test_a_silent_host_is_noticed_by_four_witnesses",
    ),
    Idle(
        REMEDY,
        "patch",
        "kubenoderemediations/status.kubenode.io",
        "remedy/test_remediation_requests.py::test_a_request_becomes_a_job_under_kube_defender_and_its_end_is_the_proof",
    ),
    Idle(
        REMEDY,
        "get list patch",
        "machines.kubenode.io machinecomponentsets.kubenode.io",
        "machine/test_replaced.py",
    ),
    Idle(
        REMEDY,
        "get create update",
        "permits.kubenode.io permits/ask.kubenode.io",
        "defender/test_auth_plane.py",
    ),
    Idle(
        REMEDY,
        "delete",
        "remedyoperationjobs.kubenode.io",
        "remedy/test_every_act.py",
    ),
    # The lineage of the cluster's data is counted up each minute, and at each start.
    Idle(
        DEFENDER,
        "get create patch",
        "configmaps",
        "defender/test_processes.py::test_three_processes_killed_at_random_break_no_limit_and_free_every_permit",
    ),
    Idle(
        REMEDY,
        "get create patch",
        "configmaps",
        "robustness/test_upgrade.py::test_each_version_ends_what_the_other_began_and_does_nothing_twice",
    ),
    # Nodes with agents.
    Idle(
        REMEDY,
        "create patch",
        "agentassignments.kubenode.io",
        "remedy/test_way.py::test_a_condition_becomes_a_job_and_the_job_a_healed_node",
    ),
    Idle(
        REMEDY,
        "patch delete",
        "leases.coordination.k8s.io",
        "remedy/test_silent_host.py::test_a_silent_host_is_noticed_by_four_witnesses",
    ),
)
