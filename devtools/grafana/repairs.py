"""The dashboard of the remedy operator: faults, jobs, their results, and its own health."""

from devtools.grafana.board import (
    BAD,
    GREEN,
    ORANGE,
    YELLOW,
    YES_NO,
    Board,
    BoardRow,
    Panel,
    Query,
    quantiles,
    stat,
)

SOME = ((None, GREEN), (1, YELLOW))


def _jobs(phase: str) -> str:
    return f'max(kubenode_defender_jobs{{phase="{phase}"}})'


def _ended(phase: str) -> str:
    return f'sum(increase(kubenode_job_seconds_count{{phase="{phase}"}}[24h]))'


NOW = BoardRow(
    "Now",
    (
        stat("A leader acts", "Whether some replica holds the lease.",
             "max(kubenode_lease_leading)", unit="none", mapping=YES_NO),
        stat("Rule engine", "Whether durable_rules runs; without it no new job acts.",
             "min(kubenode_engine_up)", unit="none", mapping=YES_NO),
        stat("Jobs running", "A rung's steps are done now.", _jobs("Running")),
        stat("Wait for a permit", "Kube Defender's board says why.", _jobs("AwaitingPermit"),
             steps=SOME),
        stat("Wait for approval", "A person must approve or deny.", _jobs("AwaitingApproval"),
             steps=SOME),
        stat("Need a person", "Every rung was tried, or one failed with Stop.",
             _jobs("NeedsHuman"), steps=BAD),
        stat("Healed in 24 h", "Jobs that ended with proof.", _ended("Succeeded")),
        stat("Failed in 24 h", "Jobs that gave up and released the node.", _ended("Failed"),
             steps=((None, GREEN), (1, ORANGE))),
    ),
)  # fmt: skip

JOBS = BoardRow(
    "Jobs",
    (
        Panel(
            "Open jobs",
            "By phase.",
            (Query("max by (phase) (kubenode_defender_jobs)", "{{phase}}"),),
            stack=True,
        ),
        Panel(
            "Phases entered",
            "Jobs that came into a phase, per interval.",
            (
                Query(
                    "sum by (phase) (increase(kubenode_job_moves_total[$__rate_interval]))",
                    "{{phase}}",
                ),
            ),
        ),
        Panel(
            "Why jobs begin to wait",
            "A hold's reason, per interval.",
            (
                Query(
                    "sum by (reason) (increase(kubenode_job_holds_total[$__rate_interval]))",
                    "{{reason}}",
                ),
            ),
        ),
        Panel(
            "Acts",
            "What was done to nodes, per interval.",
            (
                Query(
                    "sum by (act) (increase(kubenode_job_acts_total[$__rate_interval]))",
                    "{{act}}",
                ),
            ),
        ),
        Panel(
            "Time of a job",
            "From its creation to its end, by how it ended.",
            quantiles("kubenode_job_seconds", by="phase"),
            unit="s",
        ),
        Panel(
            "Fault to job",
            "From the start of the fault to its job, the rule's own waits included.",
            quantiles("kubenode_remedy_fault_to_job_seconds"),
            unit="s",
        ),
    ),
)

RULES = BoardRow(
    "Rules",
    (
        Panel(
            "Nodes judged",
            "By the rule engine.",
            (Query("sum(rate(kubenode_remedy_evaluations_total[$__rate_interval]))", "nodes"),),
            unit="ops",
        ),
        Panel(
            "Matching rules that made no job",
            "By why.",
            (
                Query(
                    "sum by (why) (increase(kubenode_remedy_waits_total[$__rate_interval]))",
                    "{{why}}",
                ),
            ),
        ),
        Panel(
            "Engines",
            "Disagreements of the two engines, restarts, and answers of one engine alone.",
            (
                Query(
                    "sum(increase(kubenode_engine_disagreements_total[$__rate_interval]))",
                    "disagreements",
                ),
                Query(
                    "sum(increase(kubenode_engine_restarts_total[$__rate_interval]))", "restarts"
                ),
                Query(
                    "sum(increase(kubenode_engine_unchecked_total[$__rate_interval]))", "unchecked"
                ),
                Query("max(kubenode_engine_quarantined_rules)", "rules in quarantine"),
            ),
        ),
    ),
)

OBJECTIVES = BoardRow(
    "Objectives",
    (
        Panel(
            "Errors, of what may be",
            "Over an hour, as a share of the events; docs/slo.md has the objectives.",
            (Query("max by (slo) (kubenode:slo_errors:ratio_rate1h)", "{{slo}}"),),
            unit="none",
        ),
        Panel(
            "Budget left",
            "Of the errors that 30 days may have; 0 is overdrawn.",
            (
                Query(
                    "clamp_min(max by (slo) (kubenode:slo_budget_left:ratio_rate30d), 0)",
                    "{{slo}}",
                ),
            ),
            unit="none",
            highest=1,
        ),
    ),
)

PROCESS = BoardRow(
    "Process",
    (
        Panel(
            "Age of what is known",
            "Seconds since the API server last proved a cache current; nothing acts on old ones.",
            (Query("max by (resource) (kubenode_informer_age_seconds)", "{{resource}}"),),
            unit="s",
        ),
        Panel(
            "Requests to the API server",
            "By answer; none is no answer.",
            (
                Query(
                    "sum by (code) (rate(kubenode_client_requests_total[$__rate_interval]))",
                    "{{code}}",
                ),
            ),
            unit="reqps",
        ),
        Panel(
            "Time of requests",
            "Until the head of the answer.",
            quantiles("kubenode_client_request_seconds"),
            unit="s",
        ),
        Panel(
            "Work that waits",
            "Keys in the queues of the controllers.",
            (Query("sum by (controller) (kubenode_queue_depth)", "{{controller}}"),),
        ),
        Panel(
            "Oldest work",
            "For how long a key has waited at most.",
            (Query("max by (controller) (kubenode_queue_oldest_seconds)", "{{controller}}"),),
            unit="s",
        ),
        Panel(
            "Reconciles",
            "By how they ended.",
            (
                Query(
                    "sum by (controller, outcome)"
                    " (rate(kubenode_controller_reconciles_total[$__rate_interval]))",
                    "{{controller}} {{outcome}}",
                ),
            ),
            unit="ops",
        ),
    ),
)

HEALING = Board(
    "kubenode-healing",
    "KubeNode: Healing",
    "Faults to jobs, jobs to ends, and whether the operator is well itself.",
    (NOW, JOBS, RULES, OBJECTIVES, PROCESS),
    (("Kube Defender", "kubenode-defender"), ("Machines", "kubenode-machines")),
)
