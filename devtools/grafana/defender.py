"""The dashboard for on-call: may anything act, what prevents it, and how close the limits are.

Every replica of Kube Defender follows the same record. So states are aggregated by `max` over the
replicas, and events by `sum`.
"""

from devtools.grafana.board import (
    BAD,
    GREEN,
    NO_YES,
    ORANGE,
    RED,
    YELLOW,
    YES_NO,
    Board,
    BoardRow,
    Panel,
    Query,
    quantiles,
    stat,
)

SOME = ((None, GREEN), (1, ORANGE))
D = "kubenode_defender"


def _by(label: str, name: str) -> str:
    return f"max by ({label}) ({D}_{name})"


def _share(kind: str) -> str:
    used = f'max by (policy, limit, scope) ({D}_budget_used{{kind="{kind}"}})'
    limit = f'max by (policy, limit, scope) ({D}_budget_limit{{kind="{kind}"}})'
    return f"{used} / clamp_min({limit}, 1)"


NOW = BoardRow(
    "Now",
    (
        stat(
            "Answers questions",
            "Whether one replica can answer. While none can, nothing new is disrupted or healed.",
            f"max({D}_ready)",
            unit="none",
            mapping=YES_NO,
        ),
        stat(
            "Frozen",
            "Heartbeats stopped all at once while hosts run: the way to the API server is down, not"
            " the nodes. Nothing starts until heartbeats are back.",
            f"max({D}_frozen)",
            unit="none",
            mapping=NO_YES,
        ),
        stat(
            "Breakers open",
            "Scopes in which too much is wrong at once; acts there wait.",
            f'sum(max by (policy, scope) ({D}_breaker_state{{state="Open"}}))',
            steps=BAD,
        ),
        stat(
            "Common causes",
            "A kernel, image or component revision that faults share; repairs of it wait.",
            f"sum(max by (policy) ({D}_common_causes))",
            steps=BAD,
        ),
        stat(
            "Pauses",
            "People's stops that hold; `kubenode defender status` names them.",
            f"sum(max by (policy) ({D}_pauses))",
            steps=((None, GREEN), (1, YELLOW)),
        ),
        stat(
            "Nodes under a permit",
            "Permits that are not given back: so many nodes are, or may be, disrupted now.",
            f'sum(max by (state) ({D}_permits{{state!="Released"}}))',
        ),
        stat(
            "Overdue permits",
            "Their holders neither renew them nor end; the slots stay taken.",
            f'max({D}_permits{{state="Overdue"}})',
            steps=BAD,
        ),
        stat(
            "Holders that wait",
            "Jobs and others that were refused and ask again.",
            f"sum({_by('reason', 'waiting')})",
            steps=((None, GREEN), (1, YELLOW), (50, ORANGE)),
        ),
    ),
)

FLEET = BoardRow(
    "Fleet and breakers",
    (
        Panel(
            "Nodes",
            "As limits count them: unhealthy is not ready or cordoned; starting and leaving nodes"
            " are no fault and no reserve.",
            (Query(_by("health", "nodes"), "{{health}}"),),
            stack=True,
        ),
        Panel(
            "Share of faulty nodes",
            "What a breaker goes by, in each of its scopes.",
            (
                Query(
                    f"{_by('policy, scope', 'breaker_faults')}"
                    f" / clamp_min({_by('policy, scope', 'breaker_nodes')}, 1)",
                    "{{scope}}",
                ),
            ),
            unit="percentunit",
            highest=1,
        ),
        Panel(
            "Breakers",
            "Of each scope.",
            (
                Query(
                    f'2 * max by (policy, scope) ({D}_breaker_state{{state="Open"}})'
                    f' + max by (policy, scope) ({D}_breaker_state{{state="HalfOpen"}})',
                    "{{scope}}",
                ),
            ),
            unit="none",
            kind="state-timeline",
            lowest=None,
            mapping=(("0", "closed", GREEN), ("1", "half-open", YELLOW), ("2", "open", RED)),
        ),
    ),
)

BUDGETS = BoardRow(
    "Budgets",
    (
        Panel(
            "Permits at once, share of the limit",
            "maxConcurrent. Of labels with many values the fullest is shown, as LABEL=*.",
            (Query(_share("maxConcurrent"), "{{policy}} {{limit}} {{scope}}"),),
            unit="percentunit",
            steps=((None, GREEN), (1, ORANGE)),
        ),
        Panel(
            "Healthy nodes beyond what must stay",
            "minHealthy. At 0 no healthy node may be disrupted.",
            (
                Query(
                    f'max by (policy, limit, scope) ({D}_budget_room{{kind="minHealthy"}})',
                    "{{policy}} {{limit}} {{scope}}",
                ),
            ),
        ),
        Panel(
            "Permits in the rate's time, share of the limit",
            "rate. A burst may be used up before the whole rate is.",
            (Query(_share("rate"), "{{policy}} {{limit}} {{scope}}"),),
            unit="percentunit",
        ),
        Panel(
            "Scopes without room",
            "Of each limit, how many clusters, zones, racks or pools allow nothing more now.",
            (Query(_by("policy, limit, scope, kind", "budget_scopes_full"),
                   "{{policy}} {{limit}} {{scope}} {{kind}}"),),
            width=12,
        ),
        Panel(
            "Pods that we displaced and that are pending",
            "More than workload.maxDisplacedPending stops new acts.",
            (Query(f"max({D}_displaced_pods)", "pending"),),
            width=12,
        ),
    ),
)  # fmt: skip

ANSWERS = BoardRow(
    "Answers and the queue",
    (
        Panel(
            "Answers",
            "To questions for a permit, by reason.",
            (
                Query(
                    f'sum by (reason) (rate({D}_verdicts_total{{call="ask"}}[$__rate_interval]))',
                    "{{reason}}",
                ),
            ),
            unit="reqps",
            stack=True,
        ),
        Panel(
            "Why holders wait",
            "By why they were refused last.",
            (Query(_by("reason", "waiting"), "{{reason}}"),),
            stack=True,
        ),
        Panel(
            "Longest wait",
            "Of those that wait now, by reason.",
            (Query(_by("reason", "waiting_oldest_seconds"), "{{reason}}"),),
            unit="s",
        ),
        Panel(
            "Time to answer",
            "The write of the Permit included.",
            quantiles(f"{D}_ask_seconds"),
            unit="s",
        ),
        Panel(
            "Permits taken back or freed",
            "revoked: by a pause or a breaker. freed: their holder or node was gone.",
            (
                Query(f"sum by (why) (increase({D}_revoked_total[$__rate_interval]))",
                      "revoked: {{why}}"),
                Query(f"sum by (why) (increase({D}_freed_total[$__rate_interval]))",
                      "freed: {{why}}"),
            ),
        ),
        Panel(
            "Planned events that came before a permit did",
            "Evacuations whose deadline passed.",
            (
                Query(
                    f"sum by (policy) (increase({D}_missed_deadlines_total[$__rate_interval]))",
                    "{{policy}}",
                ),
            ),
        ),
    ),
)  # fmt: skip

RECORD = BoardRow(
    "Record and guard",
    (
        Panel(
            "Stores",
            "Whether each store of permits answers: Permit objects, and Redis where it is used.",
            (Query(f"min by (store) ({D}_store_up)", "{{store}}"),),
            unit="bool_yes_no",
            highest=1,
        ),
        Panel(
            "Permits that could not be written",
            "Or whose outcome was unclear; each is a no.",
            (Query(f"sum(increase({D}_unwritten_total[$__rate_interval]))", "unwritten"),),
        ),
        Panel(
            "Acts of others",
            "Deletions, cordons and evictions that the admission webhook judged. audited: Enforce"
            " would have refused it.",
            (
                Query(
                    f"sum by (act, outcome) (increase({D}_guard_total[$__rate_interval]))",
                    "{{act}} {{outcome}}",
                ),
            ),
        ),
    ),
)

DEFENDER = Board(
    "kubenode-defender",
    "KubeNode: Kube Defender",
    "May anything act, what holds it, and how near the limits are.",
    (NOW, FLEET, BUDGETS, ANSWERS, RECORD),
    (("Healing", "kubenode-healing"),),
)
