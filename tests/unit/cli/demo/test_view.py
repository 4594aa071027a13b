"""The terminal view fits 100x30 and says what matters: nodes, jobs, holds and why, budgets."""

import io
from typing import Any

import pytest
from rich.console import Console

from kubenode.api.v1alpha1 import default_policy
from simulation.demo.books import PermitView
from simulation.demo.fleet import places
from simulation.demo.ledger import Ledger
from simulation.demo.observer import NodeView, Observer, ObserverFinding
from simulation.demo.view import Screen, choose_jobs, render


def a_job(node: str, phase: str, *, hold: str = "", why: str = "") -> dict[str, Any]:
    status: dict[str, Any] = {"phase": phase, "rung": 0}
    if hold:
        status["hold"] = {"reason": hold, "message": why, "scope": "zone=zone-a"}
    return {
        "metadata": {"name": f"{node}-1", "creationTimestamp": "2026-11-21T01:59:09Z"},
        "spec": {
            "nodeName": node,
            "remedier": {"name": "kubelet-unhealthy"},
            "ladder": [{"name": "restart", "steps": []}],
        },
        "status": status,
    }


def a_screen(nodes: int, jobs: dict[str, Any] | None = None) -> Screen:
    fleet = places(nodes)
    ledger = Ledger()
    observer = Observer(default_policy(), ledger)
    observer.listed(0.0, {p.name: NodeView(p.labels(), True, False, False) for p in fleet})
    return Screen(
        title="KubeNode demo",
        zones={p.name: p.zone for p in fleet},
        observer=observer,
        ledger=ledger,
        jobs=jobs or {},
        policy={},
        news=["n00007: RestartUnit kubelet.service"],
        footer="kubectl --kubeconfig K get nodes",
        seconds=12.0,
    )


def drawn(screen: Screen) -> list[str]:
    console = Console(width=100, height=30, file=io.StringIO(), record=True)
    console.print(render(screen))
    return console.export_text().splitlines()


@pytest.mark.parametrize("nodes", [6, 300, 3000])
def test_any_fleet_fits_the_screen_with_every_part_on_it(nodes: int) -> None:
    lines = drawn(a_screen(nodes))
    text = "\n".join(lines)
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 100
    for part in ("zone-a", "zone-b", "zone-c", "jobs", "budgets", "kubectl --kubeconfig"):
        assert part in text


def test_a_held_job_shows_the_reason_and_the_sentence() -> None:
    jobs = {
        "a": a_job("n00009", "Running"),
        "b": a_job("n00010", "AwaitingPermit", hold="MinHealthy", why="55 of 60 healthy"),
    }
    text = "\n".join(drawn(a_screen(300, jobs)))
    assert "AwaitingPermit 1" in text
    assert "MinHealthy: 55 of 60" in text
    assert "1 held  MinHealthy in zone=zone-a" in text


def test_hundreds_of_jobs_still_fit_and_the_running_ones_come_first() -> None:
    jobs = {f"w{i}": a_job(f"n{i:05d}", "AwaitingPermit", hold="RateLimit") for i in range(9, 300)}
    jobs["r"] = a_job("n00042", "Running")
    lines = drawn(a_screen(300, jobs))
    assert len(lines) <= 30
    rows = [line for line in lines if "kubelet-unhealthy" in line]
    assert "n00042" in rows[0]


def test_a_storm_shows_its_breaker_with_the_reason_and_who_is_next() -> None:
    screen = a_screen(300)
    scope = "topology.kubernetes.io/zone=zone-b"
    why = "39 of 99 nodes are unhealthy, 30% opens the breaker"
    screen.policy = {"breaker": [{"scope": scope, "state": "Open", "why": why}]}
    screen.queue = ["n00012", "n00044", "n00007"]
    lines = drawn(screen)
    text = "\n".join(lines)
    assert len(lines) <= 30
    assert "breaker zone-b Open: 39 of 99 nodes are" in text
    assert "3 wait for a permit; next n00012, n00044" in text
    assert "cluster  Pods" in text


def test_budgets_are_counted_from_open_permits() -> None:
    screen = a_screen(300)
    screen.observer.permit(1.0, "p", PermitView("n00009", "Pods", True))
    text = "\n".join(drawn(screen))
    assert "cluster  Pods    1 of 6" in text
    assert "zone-a   Pods    1 of 2" in text


def test_jobs_that_need_a_person_stand_above_those_that_run() -> None:
    phases = ["Running"] * 12 + ["AwaitingPermit"] * 5 + ["NeedsHuman", "AwaitingApproval"]
    chosen = choose_jobs([a_job("n1", phase) for phase in phases])
    shown = [job["status"]["phase"] for job in chosen]
    assert shown[:2] == ["NeedsHuman", "AwaitingApproval"]
    assert shown.count("AwaitingPermit") == 3 and len(shown) == 9


def test_a_machine_that_is_too_slow_is_named_instead_of_false_actions() -> None:
    screen = a_screen(300)
    screen.observer.false_actions.append(ObserverFinding(1.0, "n00009", "cordoned"))
    assert "false actions 1" in "\n".join(drawn(screen))
    screen.behind = 10.7
    text = "\n".join(drawn(screen))
    assert "machine too slow (11 s behind): figures are not meaningful" in text
    assert "false actions" not in text


def test_a_scenario_without_faults_shows_its_progress_instead() -> None:
    screen = a_screen(33)
    screen.has_faults, screen.progress = False, "containerd: Progressing, batch 1 of 1"
    text = "\n".join(drawn(screen))
    assert "containerd: Progressing, batch 1" in text
    assert "faults 0" not in text and "none yet" not in text
