"""Cases are read strictly: what is wrong is told with its line, its case, its field and value."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.case_data import own_files

from simulation.cases.form import LEVELS, Case, CaseKind, Origin, RepairClass
from simulation.cases.reader import BadCases, read

CASE: dict[str, Any] = {
    "id": "one",
    "kind": "condition",
    "stage": "decide",
    "node": "a",
    "now": "2026-01-10T10:00:30Z",
    "signals": [
        {"signal": "condition", "node": "a", "at_s": 0, "type": "Ready", "status": "False"}
    ],
    "facts": {},
    "expected": {"fault_class": "none", "repair_class": "none_observe", "first_action": "none"},
    "truth": "C",
    "input_truth": "assembled",
    "source": "a test",
}


def written(folder: Path, *cases: Any) -> Path:
    path = folder / "cases.jsonl"
    lines = [case if isinstance(case, str) else json.dumps(case) for case in cases]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def told(path: Path) -> str:
    with pytest.raises(BadCases) as caught:
        read([path])
    return str(caught.value)


def test_a_case_is_read_and_blank_lines_are_passed_over(tmp_path: Path) -> None:
    path = written(tmp_path, "", CASE, "  ", {**CASE, "id": "two"})
    assert [case.id for case in read([path])] == ["one", "two"]


def test_a_line_that_is_no_json_is_named(tmp_path: Path) -> None:
    assert "cases.jsonl:2:" in told(written(tmp_path, CASE, '{"id": '))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"colour": "red"}, ("colour", "case one")),
        ({"facts": {"agent": "sleepy"}}, ("facts.agent", "sleepy")),
        ({"facts": {"disk_used": 3}}, ("facts.disk_used",)),
        ({"now": "2026-01-10T10:00:30"}, ("no time zone",)),
        ({"kind": "rumour"}, ("kind", "rumour")),
        ({"expected": {**CASE["expected"], "repair_class": "pray"}}, ("repair_class", "pray")),
        ({"signals": []}, ("signals",)),
    ],
)
def test_what_is_wrong_names_line_field_and_value(
    tmp_path: Path, change: dict[str, Any], words: tuple[str, ...]
) -> None:
    text = told(written(tmp_path, CASE, {**CASE, **change}))
    assert "cases.jsonl:2: " in text
    for word in words:
        assert word in text


def test_signals_must_be_in_the_order_of_time(tmp_path: Path) -> None:
    late = {**CASE["signals"][0], "at_s": -60}
    assert "oldest first" in told(written(tmp_path, {**CASE, "signals": [*CASE["signals"], late]}))


def test_two_cases_of_one_name_are_told_with_both_places(tmp_path: Path) -> None:
    text = told(written(tmp_path, CASE, CASE))
    assert "cases.jsonl:2" in text
    assert "cases.jsonl:1" in text


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert "cannot be read" in told(tmp_path / "nothing.jsonl")


def test_every_class_has_one_level() -> None:
    assert sorted(c for level in LEVELS for c in level) == sorted(RepairClass)
    assert RepairClass.HOLD_STORM.level == 0
    assert RepairClass.GPU_RESET.level == 4


def test_there_are_more_own_cases_than_shared_ones() -> None:
    cases = read(own_files())
    assert len(cases) >= 109
    assert {case.kind for case in cases} >= {
        CaseKind.CONDITION,
        CaseKind.EVENT,
        CaseKind.FLEET,
        CaseKind.GUARD,
    }
    assert sum(not case.expected.repair_class.acts for case in cases) >= 50
    assert len({repr((c.signals, c.facts, c.policy)) for c in cases}) == len(cases)


@pytest.mark.parametrize(
    ("source", "origin"),
    [
        ("own", Origin.OWN),
        ("kubernetes/kubernetes#43516", Origin.THREAD),
        ("github.com/awslabs/amazon-eks-ami#195; ACK documentation", Origin.THREAD),
        ("NPD kernel-monitor.json", Origin.DOCUMENT),
    ],
)
def test_the_source_says_where_a_case_was_described(source: str, origin: Origin) -> None:
    assert Case.model_validate({**CASE, "source": source}).origin is origin
