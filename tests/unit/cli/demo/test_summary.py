"""The last line of a run: figures from the ledger and the observer."""

import json
from dataclasses import replace

from kubenode.api.v1alpha1 import default_policy
from simulation.demo.breakers import Episode
from simulation.demo.faults import Kind
from simulation.demo.ledger import EndedBy, Ledger
from simulation.demo.observer import Observer, ObserverFinding
from simulation.demo.summary import BEHIND, Run, describe, is_too_slow, spread, summary

RUN = Run(scenario="mixed", nodes=300, seed=7, speed=20, seconds=60.04)


def test_spread_is_by_nearest_rank_and_null_of_nothing() -> None:
    assert spread([]) == {"p50": None, "p99": None}
    assert spread([3.0]) == {"p50": 3.0, "p99": 3.0}
    assert spread(float(n) for n in range(1, 101)) == {"p50": 50.0, "p99": 99.0}


def test_counts_as_healed_only_what_an_agent_ended_and_a_job_proved() -> None:
    ledger = Ledger()
    for node, by, proved in (
        ("a", EndedBy.AGENT, True),
        ("b", EndedBy.AGENT, False),
        ("c", EndedBy.PERSON, True),
        ("d", EndedBy.ITSELF, True),
    ):
        ledger.inject(node, Kind.KUBELET_DOWN, 1.0)
        ledger.signalled(node, 1.5)
        ledger.decided(node, f"job-{node}", 3.0)
        ledger.end(node, [Kind.KUBELET_DOWN], 4.0, by)
        if proved:
            ledger.succeeded(f"job-{node}", 8.0)
    ledger.inject("e", Kind.FLAP, 1.0)
    found = summary(RUN, ledger, Observer(default_policy(), ledger), ["Succeeded", "Running"])
    assert found["healed"] == 1
    assert found["faultsInjected"] == 4
    assert found["jobs"] == {"Running": 1, "Succeeded": 1}
    assert found["timeToDetect"]["p50"] == 0.5
    assert found["timeToDecide"]["p50"] == 1.5
    assert found["timeToHeal"] == {"p50": 7.0, "p99": 7.0}


def test_is_one_line_of_json_with_the_promised_keys() -> None:
    found = summary(RUN, Ledger(), Observer(default_policy(), Ledger()), [])
    line = json.dumps(found)
    assert "\n" not in line
    promised = {
        "nodes", "faultsInjected", "jobs", "healed", "falseActions", "limitViolations",
        "timeToDetect", "timeToDecide", "timeToHeal",
    }  # fmt: skip
    assert promised <= found.keys()


def test_a_job_answers_the_oldest_real_fault_of_its_node() -> None:
    ledger = Ledger()
    ledger.inject("a", Kind.EVENT, 0.5)
    first = ledger.inject("a", Kind.CLOCK, 1.0)
    second = ledger.inject("a", Kind.DEADLOCK, 2.0)
    ledger.decided("a", "job-1", 3.0)
    ledger.decided("a", "job-2", 4.0)
    assert (first.job, second.job) == ("job-1", "job-2")


def told(behind: float) -> tuple[dict[str, object], str]:
    """The summary of a run with one false action, and its sentences."""
    ledger = Ledger()
    observer = Observer(default_policy(), ledger)
    observer.false_actions.append(ObserverFinding(1.0, "n00265", "asked for power off"))
    found = summary(replace(RUN, behind=behind), ledger, observer, [])
    return found, "\n".join(describe(found))


def test_figures_of_a_machine_that_is_too_slow_are_not_judged() -> None:
    found, text = told(BEHIND + 0.1)
    assert (found["figuresMeaningful"], found["falseActions"]) == (False, 1)
    assert "not meaningful" in text and "n00265" not in text and "without a fault" not in text


def test_figures_of_a_machine_that_keeps_up_are_told_with_the_findings() -> None:
    found, text = told(BEHIND)
    assert found["figuresMeaningful"] is True
    assert "1 without a fault of the node" in text and "n00265: asked for power off" in text
    assert "not meaningful" not in text


def test_the_sentences_of_a_rollout_say_where_it_stopped() -> None:
    found, _ = told(0.0)
    found["rollout"] = {
        "phase": "Paused", "stoppedAtBatch": 3, "machines": 30, "machinesUpdated": 6,
        "machinesRolledBack": 2,
    }  # fmt: skip
    text = "\n".join(describe(found))
    assert "stopped at batch 3: 6 of 30 machines run the new version, 2 were rolled back" in text
    assert "healed" not in text


def test_acts_on_faults_that_the_user_brought_are_not_called_false() -> None:
    found, _ = told(0.0)
    text = "\n".join(describe(found | {"scenario": "quiet"}))
    assert "judged no act" in text and "without a fault" not in text


def test_faults_that_a_breaker_keeps_from_repair_are_named_at_the_end() -> None:
    ledger = Ledger()
    observer = Observer(default_policy(), ledger)
    for node in ("n-a", "n-b", "n-c"):
        ledger.inject(node, Kind.KUBELET_DOWN, 1.0)
    ledger.end("n-c", [Kind.KUBELET_DOWN], 2.0, EndedBy.AGENT)
    nodes = frozenset({"n-a", "n-c"})
    observer.breakers.episodes.append(Episode("zone=a", nodes, opened=2.0, explained=True))
    found = summary(RUN, ledger, observer, [])
    assert (found["faultsOpen"], found["faultsOpenBehindBreaker"]) == (2, 1)
    text = "\n".join(describe(found))
    assert "2 faults had not ended" in text and "The nodes of 1 of them are in a zone" in text
    observer.breakers.episodes[0].closed = 3.0
    text = "\n".join(describe(summary(RUN, ledger, observer, [])))
    assert "2 faults had not ended" in text and "are in a zone" not in text


def test_a_slow_speed_allows_more_delay() -> None:
    assert is_too_slow(10, 20) and not is_too_slow(10, 1) and is_too_slow(50, 1)
