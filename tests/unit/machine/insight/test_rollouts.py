"""Rollouts as metrics, from what component sets say."""

from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from kubenode.api.v1alpha1 import Machine, MachineComponentSet
from machine.insight.rollouts import MOST_SETS, RolloutCollector


def a_set(name: str, paused: str = "", **status: Any) -> MachineComponentSet:
    said = {
        "type": "Paused",
        "status": "True" if paused else "False",
        "reason": paused or "NotPaused",
        "lastTransitionTime": "2026-03-02T00:00:00Z",
    }
    return MachineComponentSet.model_validate(
        {
            "apiVersion": "kubenode.io/v1alpha1",
            "kind": "MachineComponentSet",
            "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "component": "c-1"},
            "status": {"conditions": [said], **status},
        }
    )


def a_machine(name: str, phase: str) -> Machine:
    return Machine.model_validate(
        {
            "apiVersion": "kubenode.io/v1alpha1",
            "kind": "Machine",
            "metadata": {"name": name},
            "spec": {"addresses": ["10.0.0.7"]},
            "status": {"phase": phase},
        }
    )


def page(*sets: MachineComponentSet, machines: tuple[Machine, ...] = (), why: str = "") -> str:
    registry = CollectorRegistry()
    registry.register(RolloutCollector(lambda: machines, lambda: sets, lambda: why))
    return generate_latest(registry).decode()


def test_a_set_says_its_phase_its_machines_and_why_it_is_paused() -> None:
    counts = {"machines": 9, "updated": 4, "healthy": 8, "unavailable": 1}
    batch = {"index": 2, "size": 3, "failed": ["m1", "m2"]}
    text = page(a_set("s", "AutoPaused", phase="Paused", counts=counts, batch=batch))
    assert 'kubenode_component_set_phase{phase="Paused",set="s"} 1.0' in text
    for state, count in {"member": 9, "updated": 4, "unavailable": 1, "failed": 2}.items():
        assert f'kubenode_component_set_machines{{set="s",state="{state}"}} {count}.0' in text
    assert 'kubenode_component_set_paused{reason="AutoPaused",set="s"} 1.0' in text
    assert 'kubenode_component_set_paused{reason="User",set="s"} 0.0' in text


def test_machines_are_counted_by_phase_and_a_freeze_is_seen() -> None:
    two = (a_machine("a", "Failed"), a_machine("b", "Running"))
    text = page(machines=two, why="a cache is silent")
    assert 'kubenode_machines{phase="Failed"} 1.0' in text
    assert 'kubenode_machines{phase="Deleting"} 0.0' in text
    assert "kubenode_machine_frozen 1.0" in text
    assert "kubenode_machine_frozen 0.0" in page()


def test_sets_are_bounded_and_those_that_are_paused_are_shown() -> None:
    many = [a_set(f"s{i:04}") for i in range(MOST_SETS)]
    text = page(*many, a_set("zz", "AutoPaused"))
    assert text.count("kubenode_component_set_phase{") == MOST_SETS
    assert 'kubenode_component_set_paused{reason="AutoPaused",set="zz"} 1.0' in text
