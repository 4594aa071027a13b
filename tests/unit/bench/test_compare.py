"""`make bench-compare`: what is worse by more than its noise is told, and nothing else."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from bench.compare import Kind, NotComparable, kind_of, main, worse


def a_result(**changes: Any) -> dict[str, Any]:
    figures = {
        "nodes": 1000,
        "seconds": 2.0,
        "alerts_per_second": 200,
        "processor_ms_per_node": 80.0,
        "rssMB": 179,
        "requests": {"PATCH nodes": 100},
        "oneAtATime": {"p99": 0.08},
    }
    return {"machine": {"cores": 2, "load": 1.5}, "storm": figures | changes}


@pytest.mark.parametrize(
    "changes",
    [
        {"seconds": 3.1},
        {"alerts_per_second": 120},
        {"processor_ms_per_node": 104.0},
        {"rssMB": 215},
        {"requests": {"PATCH nodes": 112}},
        {"oneAtATime": {"p99": 0.13}},
    ],
    ids=str,
)
def test_what_is_worse_by_more_than_its_noise_is_told(changes: dict[str, Any]) -> None:
    assert [one.name.split(".")[1] for one in worse([a_result()], [a_result(**changes)])] == [
        *changes
    ]


def test_what_is_better_or_within_its_noise_is_not() -> None:
    within = a_result(seconds=2.9, alerts_per_second=150, rssMB=190, processor_ms_per_node=99.0)
    better = a_result(seconds=0.1, alerts_per_second=900, rssMB=10, requests={})
    assert worse([a_result()], [within]) == worse([a_result()], [better]) == []


def test_the_noise_of_a_figure_is_what_its_own_runs_vary_by() -> None:
    calm, rough = [a_result()] * 3, [a_result(seconds=s) for s in (1.0, 2.0, 4.0)]
    after = [a_result(seconds=s) for s in (3.5, 9.0, 3.2)]
    assert worse(calm, after) and not worse(rough, after)


def test_one_run_that_was_disturbed_does_not_count() -> None:
    assert not worse([a_result()] * 3, [a_result(), a_result(seconds=60.0), a_result()])


def test_results_of_other_things_are_not_compared() -> None:
    other: list[dict[str, Any]] = [
        a_result(nodes=2000),
        a_result() | {"machine": {"cores": 64}},
        {"drain": a_result()["storm"]},
        {"machine": {"cores": 2}, "storm": {"nodes": 1000}},
    ]
    for result in other:
        with pytest.raises(NotComparable):
            worse([a_result()], [result])


def test_a_figure_is_known_by_its_name_or_by_what_it_is_part_of() -> None:
    assert kind_of(("storm", "timeToHeal", "p50")) is Kind.TIME
    assert kind_of(("rollout", "requests", "PATCH machines/status")) is Kind.COUNT
    assert kind_of(("firstHeal", "0", "floor", "cpuMsPerJob")) is Kind.PROCESSOR
    assert kind_of(("storm", "jobs", "Succeeded")) is None


@pytest.mark.parametrize(
    ("new", "code", "said"),
    [
        (json.dumps(a_result()), 0, "no figure is worse"),
        (json.dumps(a_result(seconds=9.0)), 1, "worse: storm.seconds: 2 -> 9, noise is 50%"),
        ("no result", 2, "cannot compare"),
    ],
)
def test_the_command_ends_with_what_it_found(
    new: str,
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "old.json").write_text(json.dumps(a_result()))
    (tmp_path / "new.json").write_text(new)
    files = ["--old", str(tmp_path / "old.json"), "--new", str(tmp_path / "new.json")]
    monkeypatch.setattr(sys, "argv", ["compare", *files])
    assert main() == code
    assert said in "".join(capsys.readouterr())
