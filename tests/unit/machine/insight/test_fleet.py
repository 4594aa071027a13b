"""Coverage and consistency of components, from what Machines say."""

from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from support.api_objects import GOOD

from kubenode.api.v1alpha1 import Machine
from kubenode.cli.component_status import in_full, row
from machine.insight.fleet import NOT_REPORTED, Family, families
from machine.insight.metrics import MOST_VERSIONS, OTHER, InsightCollector

HASH, OLD = "1-44c0b7d2e1", "1-0a9e55c310"
AT = datetime(2026, 3, 2, tzinfo=UTC)


def a_machine(name: str, *components: str, **said: Any) -> Machine:
    """`said`: of each component in the status; `said=None` for an agent that has not spoken."""
    assigned = [
        {
            "name": family,
            "component": f"{family}-2",
            "set": family,
            "revision": "1-90d2c7e1fa",
            "configHash": HASH,
        }
        for family in components
    ]
    status = [
        {
            "name": family,
            "revision": "1-90d2c7e1fa",
            "attempt": 1,
            "version": "2",
            "configHash": HASH,
            "runState": "Running",
            "state": "Healthy",
            **said,
        }
        for family in components
    ]
    ready = {"type": "AgentReady", "status": "True", "lastTransitionTime": AT}
    return Machine.model_validate(
        {
            **GOOD["machine"],
            "metadata": {"name": name},
            "spec": {"addresses": ["10.0.0.7"], "components": assigned},
            "status": {
                "conditions": [ready],
                "components": [] if "unheard" in said else status,
            },
        },
        extra="ignore",
    )


def only(*machines: Machine) -> Family:
    [family] = families(machines)
    return family


def test_a_fleet_without_components_has_none() -> None:
    assert families([a_machine("a"), a_machine("b")]) == []


def test_all_alike_is_consistent_and_well() -> None:
    family = only(*(a_machine(f"m{n}", "runc") for n in range(3)))
    assert (family.assigned, family.well, family.lacking) == (3, 3, [])
    assert family.versions == {"2": 3}
    assert family.consistent


def test_a_machine_without_it_is_named() -> None:
    assert only(a_machine("b"), a_machine("a"), a_machine("c", "runc")).lacking == ["a", "b"]


def test_each_family_is_counted_for_itself() -> None:
    found = families([a_machine("a", "runc", "cni"), a_machine("b", "runc")])
    assert [(f.name, f.assigned, f.lacking) for f in found] == [
        ("cni", 1, ["b"]),
        ("runc", 2, []),
    ]


def test_two_versions_are_not_consistent() -> None:
    family = only(a_machine("a", "runc"), a_machine("b", "runc", version="1", revision="1-0"))
    assert family.versions == {"2": 1, "1": 1}
    assert family.well == 1
    assert not family.consistent


def test_content_of_before_is_not_consistent_though_the_version_is() -> None:
    family = only(a_machine("a", "runc"), a_machine("b", "runc", configHash=OLD))
    assert family.contents == {True: 1, False: 1}
    assert not family.consistent


def test_who_has_not_spoken_is_neither_well_nor_of_a_version() -> None:
    family = only(a_machine("a", "runc", unheard=True))
    assert family.well == 0
    assert family.versions == {NOT_REPORTED: 1}


def test_drift_and_failure_are_named() -> None:
    drift = [{"kind": "File", "path": "/etc/a", "count": 1}]
    family = only(
        a_machine("b", "runc", drift=drift),
        a_machine("a", "runc", state="Failed", runState="Failed"),
    )
    assert (family.drifting, family.bad) == (["b"], ["a"])


def test_what_is_printed_says_the_same() -> None:
    family = only(a_machine("a", "runc"), a_machine("b"))
    assert row(family)["versions"] == "2: 1"
    assert row(family)["lacking"] == 1
    assert in_full(family)["lacking"] == ["b"]


def test_versions_in_metrics_are_bounded() -> None:
    fleet = [a_machine(f"m{n}", "runc", version=str(n)) for n in range(MOST_VERSIONS + 5)]
    registry = CollectorRegistry()
    registry.register(InsightCollector(lambda: fleet))
    text = generate_latest(registry).decode()
    assert text.count("kubenode_component_versions{") == MOST_VERSIONS + 1
    assert f'kubenode_component_versions{{component="runc",version="{OTHER}"}} 5.0' in text
    assert 'kubenode_component_machines{component="runc",state="Healthy"} 15.0' in text
    assert 'kubenode_component_lacking_machines{component="runc"} 0.0' in text
