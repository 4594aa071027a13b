"""What becomes of machines that a set has no more to do with."""

from typing import Any

from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machinecomponentset import OnUnselect
from machine.componentset import messages
from machine.componentset.board import Assignments, SetIntent
from machine.componentset.carrier import merged
from machine.componentset.departures import stuck, wishes_for
from machine.componentset.observer import Leaver

R = "1-90d2c7e1fa"


def leaver(name: str, *, permit: bool = False, state: str = "Healthy", **entry: Any) -> Leaver:
    assigned = {"name": "c", "component": "c-1", "set": "s", "revision": R, "configHash": R}
    attempt = entry.get("attempt", 1)
    given = {
        "name": "p",
        "components": ["c"],
        "maxDisruption": "Drain",
        "startBefore": "2026-01-01T00:00:00Z",
    }
    status = {"name": "c", "revision": R, "attempt": attempt, "configHash": R, "state": state}
    machine = Machine.model_validate(
        {
            "apiVersion": "kubenode.io/v1alpha1",
            "kind": "Machine",
            "metadata": {"name": name},
            "spec": {
                "addresses": ["10.0.0.1"],
                "components": [{**assigned, **entry}],
                **({"permit": given} if permit else {}),
            },
            "status": {"components": [status]},
        }
    )
    return machine, machine.spec.components[0]


def wishes(policy: OnUnselect, *leavers: Leaver, start: bool = True, limit: int = 1) -> Any:
    return wishes_for(leavers, policy, may_start=start, limit=limit)


def test_orphans_are_given_up_at_once_but_not_in_the_middle_of_a_change() -> None:
    found = wishes(OnUnselect.ORPHAN, leaver("a"), leaver("b", permit=True), start=False)
    assert list(found) == ["a"]
    assert found["a"].entry is not None and found["a"].entry.set == ""


def test_removal_goes_a_few_at_a_time() -> None:
    found = wishes(OnUnselect.UNINSTALL, leaver("a"), leaver("b"), leaver("c"), limit=2)
    assert sorted(found) == ["a", "b"]
    entry = found["a"].entry
    assert entry is not None and (entry.desired_state, entry.attempt) == ("Absent", 2)
    absent: dict[str, Any] = {"desiredState": "Absent", "attempt": 2}
    away = leaver("a", state="Staged", **absent)
    found = wishes(OnUnselect.UNINSTALL, away, leaver("b"), limit=1)
    assert found == {"a": SetIntent(leave=True)}


def test_what_is_removed_goes_once_its_permit_has_gone() -> None:
    absent: dict[str, Any] = {"desiredState": "Absent", "attempt": 2, "state": "Absent"}
    assert wishes(OnUnselect.UNINSTALL, leaver("a", **absent)) == {"a": SetIntent(drop="c")}
    held = leaver("a", permit=True, **absent)
    assert wishes(OnUnselect.UNINSTALL, held) == {"a": SetIntent()}


def test_nothing_is_removed_while_nothing_may_start() -> None:
    assert wishes(OnUnselect.UNINSTALL, leaver("a"), start=False) == {}


def test_a_set_changes_only_what_is_its_own_or_nobodys() -> None:
    machine, entry = leaver("a")
    other = entry.model_copy(update={"set": "t", "component": "c-2"})
    assert merged(machine, {"t": SetIntent(entry=other)}) == [entry]
    assert merged(machine, {"t": SetIntent(drop="c")}) == [entry]
    mine = entry.model_copy(update={"component": "c-2"})
    assert merged(machine, {"s": SetIntent(entry=mine)}) == [mine]
    assert merged(machine, {"s": SetIntent(drop="c")}) == []


def test_invariant_11_what_is_there_already_is_not_written_again() -> None:
    machine, entry = leaver("a", assignedAt="2026-01-01T00:00:00Z")
    later = entry.model_copy(update={"assigned_at": None})
    assert merged(machine, {"s": SetIntent(entry=later)}) == list(machine.spec.components)


def test_the_board_wakes_for_what_has_changed_alone() -> None:
    woken: list[str] = []
    board = Assignments(wake=woken.append)
    board.put("s", {"a": SetIntent(leave=True), "b": SetIntent(drop="c")})
    board.put("s", {"a": SetIntent(leave=True)})
    assert sorted(woken) == ["a", "b", "b"]
    assert board.of("a") == {"s": SetIntent(leave=True)} and board.of("b") == {}
    board.forget("s")
    assert not board.known("s") and woken[-1] == "a"


def test_a_removal_that_failed_is_told() -> None:
    absent: dict[str, Any] = {"desiredState": "Absent", "attempt": 2}
    failed, going = leaver("b", state="Failed", **absent), leaver("a", state="Removing", **absent)
    assert stuck([failed, going]) == ["b"]
    said = messages.not_removed(stuck([failed, going]))
    assert said is not None and "cannot be removed from b" in said.message
    assert messages.not_removed(stuck([going])) is None
