"""The last line of a run: figures from the ledger and the observer."""

import json

from kubenode.api.v1alpha1 import default_policy
from simulation.demo.faults import Kind
from simulation.demo.ledger import EndedBy, Ledger
from simulation.demo.observer import Observer
from simulation.demo.summary import Run, spread, summary

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
