"""Health checks of other systems become rules; what has no equivalent is told, never dropped."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubenode.api.v1alpha1 import DefenderPolicy, Disruption, Mode, NodeRemedier
from rules.converters import CannotImport, Imported, imported
from rules.lint import LintSeverity, lint

SNR = {
    "apiVersion": "self-node-remediation.medik8s.io/v1alpha1",
    "kind": "SelfNodeRemediationTemplate",
    "name": "snr-template",
    "namespace": "openshift-workload-availability",
}
UNHEALTHY = [
    {"type": "Ready", "status": "False", "duration": "300s"},
    {"type": "Ready", "status": "Unknown", "duration": "300s"},
]
WORKERS = {"matchLabels": {"node-role.kubernetes.io/worker": ""}}


def nhc(**spec: Any) -> Imported:
    """A NodeHealthCheck as the operator's documentation shows it, with changes."""
    given = {"selector": WORKERS, "remediationTemplate": SNR, "unhealthyConditions": UNHEALTHY}
    kept = {k: v for k, v in (given | spec).items() if v is not None}
    return imported(
        {
            "apiVersion": "remediation.medik8s.io/v1alpha1",
            "kind": "NodeHealthCheck",
            "metadata": {"name": "nhc"},
            "spec": kept,
        }
    )


def mhc(
    version: str = "cluster.x-k8s.io/v1beta1", annotations: Any = None, **spec: Any
) -> Imported:
    """A MachineHealthCheck of Cluster API, with changes."""
    given: dict[str, Any] = {"clusterName": "c1", "selector": {"matchLabels": {"pool": "a"}}}
    if version.endswith("v1beta1"):
        given["unhealthyConditions"] = [{"type": "Ready", "status": "Unknown", "timeout": "5m0s"}]
    return imported(
        {
            "apiVersion": version,
            "kind": "MachineHealthCheck",
            "metadata": {"name": "mhc", "namespace": "default", "annotations": annotations or {}},
            "spec": {k: v for k, v in (given | spec).items() if v is not None},
        }
    )


def rule(found: Imported) -> NodeRemedier:
    """Valid, and nothing that lint would refuse."""
    made = NodeRemedier.from_user(found.rule)
    assert [one for one in lint([made]) if one.severity is LintSeverity.ERROR] == []
    return made


def noted(found: Imported) -> dict[str, str]:
    return {note.path: note.text for note in found.notes}


def leaves(found: Imported) -> list[tuple[str, str, float]]:
    conditions = [one["condition"] for one in found.rule["spec"]["when"]["any"]]
    made = rule(found).spec.when.any or []
    spans = [one.condition.for_.total_seconds() for one in made if one.condition is not None]
    return [(c["type"], c["status"], s) for c, s in zip(conditions, spans, strict=True)]


# -- NodeHealthCheck ---------------------------------------------------------------------------


def test_a_node_health_check_becomes_a_rule_in_dry_run() -> None:
    found = nhc()
    made = rule(found)
    assert made.spec.mode is Mode.DRY_RUN
    assert leaves(found) == [("Ready", "False", 300), ("Ready", "Unknown", 300)]
    assert made.spec.nodes.matches({"node-role.kubernetes.io/worker": ""})
    assert not made.spec.nodes.matches({})
    assert made.spec.fault_class == "node_not_ready"
    assert made.spec.disruption_class is Disruption.NODE


def test_conditions_that_are_not_given_are_the_operator_s_default() -> None:
    assert leaves(nhc(unhealthyConditions=None)) == [
        ("Ready", "False", 300),
        ("Ready", "Unknown", 300),
    ]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("300s", 300), ("1h30m", 5400), ("1.5h", 5400), ("250ms", 0.25), ("5us", 0.001)],
)
def test_durations_of_go_are_read(text: str, seconds: float) -> None:
    one = {"type": "Ready", "status": "False", "duration": text}
    assert leaves(nhc(unhealthyConditions=[one]))[0][2] == seconds


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({}, "51%"),
        ({"minHealthy": "70%"}, "70%"),
        ({"minHealthy": 3}, 3),
        ({"maxUnhealthy": "49%"}, "51%"),
        ({"maxUnhealthy": "0%"}, "100%"),
    ],
)
def test_how_many_must_stay_healthy_becomes_a_policy(
    fields: dict[str, Any], limit: int | str
) -> None:
    found = nhc(**fields)
    assert found.policy is not None
    policy = DefenderPolicy.from_user(found.policy)
    assert [one.min_healthy for one in policy.spec.limits] == [limit]
    assert policy.spec.nodes == rule(found).spec.nodes


def test_one_label_that_names_the_nodes_is_the_scope_of_the_limit() -> None:
    found = nhc(selector={"matchLabels": {"pool": "a"}})
    assert found.policy is not None
    assert found.policy["spec"]["limits"] == [
        {"scope": "Label", "label": "pool", "minHealthy": "51%"}
    ]
    several = {"matchLabels": {"pool": "a", "zone": "b"}}
    assert "counted over the selected nodes" in noted(nhc(selector=several))["spec.minHealthy"]


def test_a_count_of_unhealthy_nodes_becomes_a_guard() -> None:
    made = rule(nhc(maxUnhealthy=4, minHealthy="50%"))
    guards = [g.fact for g in made.spec.unless.any or [] if g.fact] if made.spec.unless else []
    assert ("cluster.unhealthy", 4.0) in [(g.name, g.above) for g in guards]


def test_an_empty_selector_meant_every_node_and_is_told() -> None:
    found = nhc(selector={})
    assert rule(found).spec.nodes.all is True
    assert "every node" in noted(found)["spec.selector"]


def test_a_paused_check_is_off() -> None:
    found = nhc(pauseRequests=["upgrade"])
    assert rule(found).spec.mode is Mode.OFF
    assert "upgrade" in noted(found)["spec.pauseRequests"]


def test_escalating_remediations_become_rungs_in_their_order() -> None:
    other = {"kind": "MyOwnRemediationTemplate", "name": "mine"}
    found = nhc(
        remediationTemplate=None,
        healthyDelay="20m",
        escalatingRemediations=[
            {"remediationTemplate": other, "order": 2, "timeout": "10m"},
            {"remediationTemplate": SNR, "order": 1, "timeout": "300s"},
            {"remediationTemplate": SNR, "order": 3},
        ],
    )
    ladder = rule(found).spec.ladder or []
    assert [rung.name for rung in ladder] == ["reboot", "my-own", "reboot-3"]
    assert [rung.verify.for_.total_seconds() for rung in ladder] == [1200] * 3
    assert [rung.verify.timeout.total_seconds() for rung in ladder] == [1500, 1800, 2100]
    assert [step.name for step in ladder[1].steps] == ["createObject"]
    assert "settings" in noted(found)["spec.escalatingRemediations[0]"]


def test_a_negative_delay_leaves_the_node_to_a_person() -> None:
    found = nhc(healthyDelay="-1s")
    assert rule(found).spec.on_give_up == "Hold"
    assert "a person" in noted(found)["spec.healthyDelay"]


def test_the_storm_cool_down_is_how_long_the_breaker_stays_open() -> None:
    found = nhc(stormCooldownDuration="30m")
    assert found.policy is not None
    policy = DefenderPolicy.from_user(found.policy)
    assert policy.spec.breaker is not None
    assert policy.spec.breaker.open.total_seconds() == 1800


# -- MachineHealthCheck ------------------------------------------------------------------------


def test_a_machine_health_check_becomes_a_rule_that_replaces() -> None:
    found = mhc(maxUnhealthy="40%", nodeStartupTimeout="20m")
    made = rule(found)
    assert leaves(found) == [("Ready", "Unknown", 300)]
    assert [s.name for s in (made.spec.ladder or [])[-1].steps][-1] == "replace"
    assert "labels of Machines" in noted(found)["spec.selector"]
    assert "20m" in noted(found)["spec.nodeStartupTimeout"]
    assert "c1" in noted(found)["spec.clusterName"]
    assert found.policy is not None
    assert found.policy["spec"]["limits"][0]["minHealthy"] == "60%"


def test_v1beta2_has_the_same_under_other_names() -> None:
    found = mhc(
        "cluster.x-k8s.io/v1beta2",
        checks={
            "nodeStartupTimeoutSeconds": 600,
            "unhealthyNodeConditions": [
                {"type": "Ready", "status": "False", "timeoutSeconds": 300},
                {"type": "KernelDeadlock", "status": "True", "timeoutSeconds": 0},
            ],
            "unhealthyMachineConditions": [{"type": "InfrastructureReady", "status": "False"}],
            "unhealthyExpressions": [{"expression": "node.has_condition('A', 'True')"}],
        },
        remediation={
            "triggerIf": {"unhealthyLessThanOrEqualTo": "40%", "unhealthyInRange": "[3-5]"},
            "templateRef": {
                "kind": "Metal3RemediationTemplate",
                "name": "m3",
                "apiVersion": "x/v1",
            },
        },
    )
    NodeRemedier.from_user(found.rule)
    assert [one["condition"]["for"] for one in found.rule["spec"]["when"]["any"]] == ["5m", "0s"]
    assert [s for s in found.rule["spec"]["ladder"][0]["steps"] if "powerCycle" in s]
    guards = [g["fact"] for g in found.rule["spec"]["unless"]["any"]]
    assert {"name": "cluster.unhealthy", "below": 3} in guards
    assert {"name": "cluster.unhealthy", "above": 5} in guards
    notes = noted(found)
    assert "InfrastructureReady" in notes["spec.checks.unhealthyMachineConditions"]
    assert "has_condition" in notes["spec.checks.unhealthyExpressions"]
    assert "600s" in notes["spec.nodeStartupTimeout"]


def test_openshift_knows_power_cycles_by_an_annotation() -> None:
    bare = {"machine.openshift.io/remediation-strategy": "external-baremetal"}
    last = [
        next(
            iter(mhc("machine.openshift.io/v1beta1", marks).rule["spec"]["ladder"][0]["steps"][-1])
        )
        for marks in (bare, None)
    ]
    assert last == ["powerCycle", "replace"]


def test_a_paused_machine_health_check_is_off() -> None:
    assert rule(mhc(annotations={"cluster.x-k8s.io/paused": ""})).spec.mode is Mode.OFF


# -- what cannot be imported -------------------------------------------------------------------


def test_what_is_left_out_is_always_told() -> None:
    assert "no equivalent" in noted(nhc(backoff={"type": "exponential"}))["spec.backoff"]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"remediationTemplate": None}, "spec.remediationTemplate"),
        ({"unhealthyConditions": []}, "spec.unhealthyConditions"),
        ({"unhealthyConditions": [{"type": "Ready"}]}, "spec.unhealthyConditions[0]"),
        (
            {"unhealthyConditions": [{"type": "Ready", "duration": "soon"}]},
            "spec.unhealthyConditions[0].duration",
        ),
        ({"minHealthy": "half"}, "spec.minHealthy"),
        ({"selector": "all"}, "spec.selector"),
    ],
)
def test_what_cannot_be_imported_names_the_field(spec: dict[str, Any], path: str) -> None:
    with pytest.raises(CannotImport) as refused:
        nhc(**spec)
    assert refused.value.path == path
    assert ": " in str(refused.value)


@pytest.mark.parametrize("kind", ["Node", "NodeHealthChecker", None])
def test_other_kinds_are_refused(kind: str | None) -> None:
    with pytest.raises(CannotImport, match="give a NodeHealthCheck"):
        imported({"apiVersion": "remediation.medik8s.io/v1alpha1", "kind": kind})


FIELDS = (
    "selector unhealthyConditions minHealthy maxUnhealthy remediationTemplate pauseRequests checks"
    " escalatingRemediations healthyDelay stormCooldownDuration remediation unhealthyRange"
    " nodeStartupTimeout type status duration timeout kind name order matchLabels triggerIf"
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["5m", "51%", "[1-2]", "", "x"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(FIELDS.split()), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(FIELDS.split()), JSON, max_size=6), st.booleans())
def test_whatever_is_given_is_imported_or_refused_in_words(spec: Any, machine: bool) -> None:
    group = "cluster.x-k8s.io/v1beta1" if machine else "remediation.medik8s.io/v1alpha1"
    kind = "MachineHealthCheck" if machine else "NodeHealthCheck"
    data = {"apiVersion": group, "kind": kind, "metadata": {"name": "n"}, "spec": spec}
    try:
        assert imported(data).rule["metadata"] == {"name": "n"}
    except CannotImport as error:
        assert error.args[0]
