"""Labelled cases, negatives and benign life against the rules that ship: the numbers we promise.

Cases are of every kind and stage: log lines through the agent's watcher, alerts and cloud events
through Host Doctor, fleets through Kube Defender, jobs under way through the job controller.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import pytest
from support.benign import Total, engines_of_this_process, run, tasks_for
from support.case_data import OWN, half, own_files, shared_folder
from support.negatives import negatives
from support.negatives_run import acted_on

from kubenode.cli.library import library
from simulation.cases.command import predictions
from simulation.cases.form import Case, CaseKind
from simulation.cases.reader import read
from simulation.cases.scores import Prediction, Score, score

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]
CASES = 109
"""Own cases at least as many as the shared ones."""


def judged(files: Sequence[Path]) -> tuple[list[Case], dict[str, Prediction], Score]:
    cases = read(files)
    said = predictions(cases, library())
    return cases, said, score(cases, said)


def told(result: Score) -> str:
    return "\n".join(
        f"{j.case.id}: {j.prediction.repair_class} {j.prediction.plan} {j.violations}"
        for j in result.wrong
    )


def answered() -> dict[str, str]:
    found: dict[str, str] = json.loads((OWN / "answers.json").read_text())
    return found


def test_shared_cases_meet_their_targets_and_the_shared_score(tmp_path: Path) -> None:
    folder = shared_folder()
    cases, said, result = judged([folder / "cases.jsonl"])
    assert result.cases >= CASES, "of all kinds and stages"
    assert result.violations == 0, told(result)
    assert result.false_actions == 0, told(result)
    assert result.precision is not None, "something is done"
    assert result.precision >= 0.95, told(result)
    assert result.recall is not None, "something is wanted"
    assert result.recall >= 0.9, told(result)
    right, asked = result.parsed
    assert (right, asked) == (2, 2), "as many host events as the parsers must give"
    assert {j.case.id for j in result.wrong} <= answered().keys(), "every miss has its answer"
    scorer = folder.parent / "testing" / "score_cases.py"
    if scorer.is_file():
        assert _shared_score(scorer, folder, cases, said, tmp_path) == _first_line(result)


def _first_line(s: Score) -> dict[str, tuple[int, int]]:
    return {
        "right": (s.right, s.cases),
        "class": (s.class_right, s.cases),
        "fault": (s.fault_right, s.cases),
        "first": (s.first_right, s.cases),
        "precision": (s.acts_right, s.acts),
        "recall": (s.want_act_hit, s.want_act),
        "false action": (s.false_actions, s.want_quiet),
    }


def _shared_score(
    scorer: Path, folder: Path, cases: Sequence[Case], said: dict[str, Prediction], tmp: Path
) -> dict[str, tuple[int, int]]:
    """The first line of the shared scorer, which knows nothing of ours."""
    ids = {case.id for case in cases}
    lines = (folder / "cases.jsonl").read_text().splitlines()
    wanted = [line for line in lines if line.strip() and json.loads(line)["id"] in ids]
    (tmp / "cases.jsonl").write_text("\n".join(wanted))
    predicted = [prediction.model_dump_json() for prediction in said.values()]
    (tmp / "said.jsonl").write_text("\n".join(predicted))
    done = subprocess.run(
        [sys.executable, scorer, tmp / "cases.jsonl", tmp / "said.jsonl"],
        capture_output=True,
        text=True,
        check=False,
    )
    line = done.stdout.splitlines()[0].removeprefix("all").strip()
    found: dict[str, tuple[int, int]] = {}
    for part in line.split("|"):
        words = part.split()
        pair = next(word for word in words if "/" in word)
        name = " ".join(words[: words.index(pair)])
        found[name] = (int(pair.split("/")[0]), int(pair.split("/")[1]))
        if name == "false action":
            break
    return found


def test_own_cases_meet_the_same_shares_and_every_miss_is_answered() -> None:
    _, _, result = judged(own_files())
    assert result.cases >= 3 * CASES
    assert {case.kind for case in (j.case for j in result.judged)} == set(CaseKind)
    assert result.violations == 0, told(result)
    assert result.false_actions == 0, told(result)
    assert result.precision is not None, "something is done"
    assert result.precision >= 0.95, told(result)
    assert result.recall is not None, "something is wanted"
    assert result.recall >= 0.9, told(result)
    assert {j.case.id for j in result.wrong} <= answered().keys(), told(result)


@pytest.mark.parametrize("name", ["open", "sealed"])
def test_a_case_from_public_material_lies_in_the_half_of_its_hash(name: str) -> None:
    for case in read(half(name)):
        even = sha256(case.id.encode()).digest()[0] % 2 == 0
        assert even == (name == "open"), case.id


def test_no_case_of_the_open_half_is_acted_on_wrongly() -> None:
    _, _, result = judged(half("open"))
    assert result.cases >= 200
    assert result.false_actions == 0, told(result)
    assert result.precision is not None and result.precision >= 0.95, told(result)
    assert result.recall is not None and result.recall >= 0.91, told(result)


def test_the_sealed_half_is_no_worse_than_it_was() -> None:
    """Figures alone: its misses stay unread. Targets: 0.95, 0.9, no false act, 2 % silent."""
    _, _, result = judged(half("sealed"))
    assert result.cases >= 200
    # 0.83 and 6 until scoring let a job go on with its next rung, as production does.
    assert result.precision is not None and result.precision >= 0.82
    assert result.recall is not None and result.recall >= 0.82
    assert result.false_actions <= 2
    assert result.violations <= 7
    assert result.silent_misses <= 13


def test_three_thousand_labelled_negatives_are_left_alone() -> None:
    cases = negatives()[:3200]
    assert len(cases) >= 3000
    found = list(acted_on(cases, *engines_of_this_process(library())))
    assert not found, "\n\n".join(map(str, found[:5]))


def test_benign_life_makes_nobody_act() -> None:
    total = Total()
    for chunk in run(tasks_for(2000, seed=9000, nodes=50, hours=10, pace=1.0)):
        total.add(chunk)
    assert total.node_hours >= 2000
    assert len(total.stories) >= 10, "life is not all quiet"
    assert not total.acts, json.dumps(total.acts[:3], indent=1)
    assert not total.wanted, json.dumps(total.wanted[:3], indent=1)
