"""What an uninstall prints before it deletes, and who may let it go on."""

from collections.abc import Callable

import pytest

from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.uninstall import LEADERS
from kubenode.cli.uninstall_plan import UninstallPlan, confirm

FIRST = ("noderemediers", "remedyoperationjobs")


def a_plan(running: str = "") -> UninstallPlan:
    objects = {"noderemediers": 250, "remedyoperationjobs": 3, "permits": 7, "machines": 0}
    kinds = ("noderemediers.kubenode.io", "permits.kubenode.io")
    return UninstallPlan("context x", objects, ["n1"], kinds, ["kubenode-system"], running)


def test_the_plan_counts_what_goes() -> None:
    assert a_plan().lines(FIRST) == [
        "  objects: 250 noderemediers, 3 remedyoperationjobs",
        "  2 kinds, with 7 permits",
        "  namespaces: kubenode-system",
        "  marks and conditions on 1 nodes",
    ]


def test_the_plan_says_what_stays_while_programs_run() -> None:
    lines = a_plan("now stop the holder of Lease kubenode-all").lines(FIRST)
    assert lines[1:] == [
        "  2 kinds and 1 namespaces stay until the programs have stopped:"
        " now stop the holder of Lease kubenode-all"
    ]


def test_the_lease_of_all_programs_in_one_process_counts() -> None:
    assert "kubenode-all" in LEADERS


def answering(answer: bool, questions: list[str]) -> Callable[[str], bool]:
    def ask(question: str) -> bool:
        questions.append(question)
        return answer

    return ask


@pytest.mark.parametrize("terminal", [True, False])
def test_yes_asks_nobody(terminal: bool) -> None:
    questions: list[str] = []
    confirm(yes=True, terminal=terminal, ask=answering(False, questions))
    assert questions == []


def test_a_person_on_a_terminal_decides() -> None:
    questions: list[str] = []
    confirm(yes=False, terminal=True, ask=answering(True, questions))
    with pytest.raises(Refusal, match="nothing was deleted"):
        confirm(yes=False, terminal=True, ask=answering(False, questions))
    assert len(questions) == 2


def test_a_script_without_yes_is_refused_with_the_remedy() -> None:
    questions: list[str] = []
    with pytest.raises(Refusal, match="pass --yes") as refused:
        confirm(yes=False, terminal=False, ask=answering(True, questions))
    assert refused.value.code is Exit.USAGE
    assert questions == []
