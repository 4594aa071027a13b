"""Leave for one machine, whatever its components and their sets want."""

from datetime import timedelta
from typing import Any

from support.clock import T0

from kubenode.api.v1alpha1 import Machine, MachineComponent, MachineComponentSet
from kubenode.api.v1alpha1.machinework import ChangeClass, MachinePermit
from machine.componentset.leave import PermitAct, PermitPlan, leave_for, patience_of, renewed_permit

PATIENCE = timedelta(minutes=30)
R = "1-90d2c7e1fa"


def entry(name: str, set_: str = "", **rest: Any) -> dict[str, Any]:
    given = {"name": name, "component": f"{name}-1", "revision": R, "configHash": R}
    return {**given, "set": set_ or name, **rest}


def status(name: str, state: str, needs: str = "", **rest: Any) -> dict[str, Any]:
    found = {"name": name, "revision": R, "attempt": 1, "configHash": R, "state": state, **rest}
    return {**found, "needs": needs} if needs else found


def permit(*components: str, class_: str = "Drain", minutes: float = 10) -> dict[str, Any]:
    until = T0 + timedelta(minutes=minutes)
    return {
        "name": "p-1",
        "components": list(components),
        "maxDisruption": class_,
        "startBefore": until.isoformat(),
    }


def machine(
    entries: list[dict[str, Any]],
    statuses: list[dict[str, Any]],
    permit: dict[str, Any] | None = None,
) -> Machine:
    spec: dict[str, Any] = {"addresses": ["10.0.0.1"], "components": entries}
    if permit is not None:
        spec["permit"] = permit
    return Machine.model_validate(
        {
            "apiVersion": "kubenode.io/v1alpha1",
            "kind": "Machine",
            "metadata": {"name": "m1"},
            "spec": spec,
            "status": {"components": statuses},
        }
    )


def leave(machine: Machine, *may: str, held: tuple[str, ...] = ()) -> PermitPlan:
    return leave_for(machine, set(may), held, T0, PATIENCE)


def test_nothing_waits_and_nothing_is_held_back() -> None:
    well = machine([entry("a")], [status("a", "Healthy")])
    assert leave(well, "a") == PermitPlan(PermitAct.END)


def test_a_waiting_component_is_prepared_for_as_much_as_it_needs() -> None:
    waits = machine([entry("a")], [status("a", "Staged", "Drain")])
    assert leave(waits, "a") == PermitPlan(PermitAct.PREPARE, "a", ("a",), ChangeClass.DRAIN)


def test_a_set_that_does_not_let_go_gets_nothing() -> None:
    waits = machine([entry("a")], [status("a", "Staged", "Drain")])
    assert leave(waits) == PermitPlan(PermitAct.END)


def test_several_share_one_permit_of_the_widest_class() -> None:
    waits = machine(
        [entry("b"), entry("a"), entry("c")],
        [
            status("a", "Staged", "Restart"),
            status("b", "Staged", "Reboot"),
            status("c", "Staged", "Drain"),
        ],
    )
    assert leave(waits, "a", "b") == PermitPlan(
        PermitAct.PREPARE, "a", ("a", "b"), ChangeClass.REBOOT
    )


def test_the_set_for_which_the_node_is_held_already_leads() -> None:
    waits = machine(
        [entry("a"), entry("b")], [status("a", "Staged", "Drain"), status("b", "Staged", "Drain")]
    )
    assert leave(waits, "a", "b", held=("b",)).lead == "b"


def test_what_a_set_has_done_with_is_given_back_before_another_asks() -> None:
    """Else the other is told for ever that the node is busy: nobody else gives it back."""
    done = machine(
        [entry("a"), entry("b")], [status("a", "Healthy"), status("b", "Staged", "Restart")]
    )
    assert leave(done, "a", "b", held=("a",)) == PermitPlan(PermitAct.END, "b")
    assert leave(done, "a", "b") == PermitPlan(PermitAct.PREPARE, "b", ("b",), ChangeClass.RESTART)


def test_what_an_older_revision_needs_gets_no_permit() -> None:
    old = machine([entry("a", attempt=2)], [status("a", "Staged", "Drain")])
    assert leave(old, "a") == PermitPlan(PermitAct.END)


def test_a_permit_is_kept_while_its_agent_may_act() -> None:
    for state in ("Applying", "Verifying", "Undoing", "Removing"):
        acts = machine([entry("a")], [status("a", state)], permit("a"))
        assert leave(acts) == PermitPlan(PermitAct.KEEP, "a", ("a",), ChangeClass.DRAIN)
    staged = machine([entry("a")], [status("a", "Staged", "Drain")], permit("a"))
    assert leave(staged).act is PermitAct.KEEP


def test_it_is_cleared_after_success_and_after_every_other_end() -> None:
    for state in ("Healthy", "RolledBack", "Failed", "Unhealthy", "DriftFight"):
        done = machine([entry("a")], [status("a", state)], permit("a"))
        assert leave(done, "a") == PermitPlan(PermitAct.CLEAR, "a")


def test_f34_it_is_cleared_in_the_end_though_the_agent_says_nothing() -> None:
    acts = machine([entry("a")], [status("a", "Applying")], permit("a", minutes=-31))
    assert leave(acts, "a") == PermitPlan(PermitAct.CLEAR, "a")


def test_who_waits_too_joins_the_permit() -> None:
    both = machine(
        [entry("a"), entry("b")],
        [status("a", "Applying"), status("b", "Staged", "Reboot")],
        permit("a"),
    )
    assert leave(both, "b") == PermitPlan(PermitAct.PREPARE, "a", ("a", "b"), ChangeClass.REBOOT)
    assert leave(both) == PermitPlan(PermitAct.KEEP, "a", ("a",), ChangeClass.DRAIN)


def test_who_joins_does_so_under_the_leave_of_the_set_for_which_the_node_is_held() -> None:
    """Kube Defender gives a node to one: asked for another set it would refuse for good."""
    names = ("a", "b", "c")
    ends = [status("a", "Healthy"), status("b", "Staged", "Drain"), status("c", "Staged", "Drain")]
    seen = machine([entry(name) for name in names], ends, permit("a", "c"))
    found = leave(seen, *names, held=("c",))
    assert found == PermitPlan(PermitAct.PREPARE, "c", ("a", "c", "b"), ChangeClass.DRAIN)
    assert leave(seen, held=("c",)).lead == "c", "nor is another's kept alive"


def test_an_agent_that_came_too_late_gets_new_leave_only_if_its_set_still_lets_go() -> None:
    late = machine([entry("a")], [status("a", "Staged", "Drain")], permit("a", minutes=-1))
    assert leave(late, "a") == PermitPlan(PermitAct.PREPARE, "a", ("a",), ChangeClass.DRAIN)
    assert leave(late) == PermitPlan(PermitAct.CLEAR, "a")


def test_a_component_that_nobody_has_any_more_is_cleared() -> None:
    gone = machine([], [], permit("a"))
    assert leave(gone) == PermitPlan(PermitAct.CLEAR, "")


def test_f22_leave_lasts_as_long_as_the_most_patient_set_and_component() -> None:
    def a_set(name: str, timeout: str) -> MachineComponentSet:
        spec = {"selector": {"matchLabels": {"a": "b"}}, "component": f"{name}-1"}
        spec["updateStrategy"] = {"machineTimeout": timeout}
        return MachineComponentSet.model_validate({"metadata": {"name": name}, "spec": spec})

    def a_component(name: str, reboot: str) -> MachineComponent:
        source = {"type": "apt", "apt": {"packages": [{"name": name, "version": "1"}]}}
        spec = {"component": name, "version": "1", "source": source, "rebootTimeout": reboot}
        return MachineComponent.model_validate({"metadata": {"name": f"{name}-1"}, "spec": spec})

    sets = {name: a_set(name, time) for name, time in (("a", "45m"), ("b", "2h"), ("c", "5h"))}
    components = {f"{name}-1": a_component(name, "20m") for name in ("a", "b")}

    def lasts(*names: str, class_: str = "Drain") -> timedelta:
        entries = [entry(name) for name in ("a", "b", "c")]
        return patience_of(machine(entries, [], permit(*names, class_=class_)), sets, components)

    assert lasts("a") == timedelta(minutes=45)
    assert lasts("a", "b") == timedelta(hours=2)
    assert lasts("a", class_="Reboot") == timedelta(minutes=65)
    assert lasts("c", class_="Reboot") == timedelta(hours=5, minutes=10), "c-1 is gone"
    assert patience_of(machine([entry("a")], [], permit("a")), {}, {}) == timedelta(minutes=15)
    assert patience_of(machine([entry("a")], []), sets, components) == timedelta(0)


def test_an_interrupted_change_is_prepared_for_again_with_and_without_its_old_permit() -> None:
    stands = [status("a", "Applying", "Reboot", reason="Interrupted")]
    again = PermitPlan(PermitAct.PREPARE, "a", ("a",), ChangeClass.REBOOT)
    assert leave(machine([entry("a")], stands), "a") == again
    expired = machine([entry("a")], stands, permit("a", class_="Reboot", minutes=-1))
    assert leave(expired, "a") == again


def test_a_permit_is_renewed_before_it_ends_and_never_beyond_the_patience() -> None:
    def after(minutes: float, before: MachinePermit | None = None) -> MachinePermit | None:
        given = before or MachinePermit.model_validate(permit("a"))
        return renewed_permit(given, T0 + timedelta(minutes=minutes), PATIENCE)

    def end(given: MachinePermit | None) -> float | None:
        until = given.renewed_until if given is not None else None
        return (until - T0) / timedelta(minutes=1) if until is not None else None

    assert after(4) is None
    first = after(6)
    assert end(first) == 16 and first is not None and first.start_before == T0 + PATIENCE / 3
    assert after(10, first) is None
    assert end(after(12, first)) == 22
    last = after(38, first)
    assert end(last) == 40 and last is not None
    assert after(39, last) is None
