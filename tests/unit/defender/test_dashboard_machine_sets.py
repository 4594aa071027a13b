"""The pages of MachineSets: machines, replicas, and why a set waits."""

from typing import Any

import msgspec
import pytest
from support.dashboard_scenes import a_scene
from support.dashboard_world import a_machine_set, a_member, some_machine_sets, some_members

from defender.dashboard.machine import RolloutMachine
from defender.dashboard.machine_set import MachineSetView
from defender.dashboard.pages import PAGES
from defender.dashboard.render import Renderer
from defender.dashboard.scene import Scene
from defender.dashboard.views import machine_sets
from defender.dashboard.views.machine_sets import (
    MachineSetHead,
    SetMachineRow,
    SetMachineState,
    state_of,
)


def a_set(body: dict[str, Any]) -> MachineSetView:
    return msgspec.json.decode(msgspec.json.encode(body), type=MachineSetView)


def machine(body: dict[str, Any]) -> RolloutMachine:
    return msgspec.convert(body, RolloutMachine, strict=False)


def scene(members: list[dict[str, Any]] | None = None, **given: Any) -> Scene:
    sets = {body["metadata"]["name"]: a_set(body) for body in some_machine_sets()}
    bodies = some_members() if members is None else members
    known = {body["metadata"]["name"]: machine(body) for body in bodies}
    return a_scene([], machine_sets=sets, machines=known, **given)


def member_row(body: dict[str, Any]) -> SetMachineRow:
    view = machine_sets.view_set(scene([body]), "workers")
    assert view is not None
    (row,) = view["machines"]
    assert isinstance(row, SetMachineRow)
    return row


def test_sets_that_wait_come_first_with_their_reason() -> None:
    view = machine_sets.view(scene(), {})
    assert [row.key for row in view["sets"]] == ["workers", "control"]
    html = Renderer().part(view["sets"][0], "")
    assert "QuotaExceeded" in html and "2 of 3 machines: quota of large" in html
    assert 'href="/machine-sets/workers"' in html


def test_page_of_a_set_has_replicas_reasons_terms_and_its_own_machines_alone() -> None:
    other = a_member("control-1", "control")
    view = machine_sets.view_set(scene([*some_members(), other]), "workers")
    assert view is not None
    (head,) = view["machine_set"]
    assert isinstance(head, MachineSetHead)
    assert (head.row.available, head.row.replicas, head.row.share) == (1, 3, 33.3)
    assert dict(head.terms)["Autoscaling"] == "1 to 9 machines"
    assert head.counts == (("f", "Failed", 1), ("h", "Running", 1))
    assert [row.key for row in view["machines"]] == ["workers-2", "workers-1"]


def test_there_is_no_page_of_an_unknown_set() -> None:
    assert machine_sets.view_set(scene(), "nobody") is None


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        ("Running", SetMachineState.RUNNING),
        ("Updating", SetMachineState.RUNNING),
        ("Provisioning", SetMachineState.COMING),
        ("", SetMachineState.COMING),
        ("Degraded", SetMachineState.UNWELL),
        ("Unreachable", SetMachineState.UNWELL),
        ("Failed", SetMachineState.FAILED),
        ("Deleting", SetMachineState.LEAVING),
    ],
)
def test_state_of_a_machine_is_by_its_phase(phase: str, state: SetMachineState) -> None:
    assert state_of(machine(a_member("m", "workers", phase))) is state


def test_a_machine_that_does_not_run_says_the_cause_before_its_consequences() -> None:
    body = a_member(
        "workers-1", "workers", "Provisioning",
        NodeReady=("NotJoined", "no Node"), InstanceReady=("Creating", "wait"),
    )  # fmt: skip
    row = member_row(body)
    assert row.why == "Creating: wait"


def test_a_machine_that_leaves_says_why_and_what_it_waits_for() -> None:
    held = ("PermitDenied", "zone-a: 1 of 1 permits are held")
    body = a_member("workers-1", "workers", Deletable=held)
    body["metadata"]["annotations"] = {"kubenode.io/leaving": "ScaleIn"}
    row = member_row(body)
    assert row.state is SetMachineState.LEAVING
    assert row.why == "ScaleIn: PermitDenied: zone-a: 1 of 1 permits are held"


def test_an_empty_set_is_as_desired() -> None:
    assert machine_sets.row_of(a_set(a_machine_set("empty", 0))).share == 100.0


def test_sets_and_machines_that_were_not_read_are_not_shown_as_none() -> None:
    (summary,) = machine_sets.view(scene(machine_sets_read=False), {})["found"]
    assert "not read yet" in Renderer().part(summary, "")
    view = machine_sets.view_set(scene(machines_read=False), "workers")
    assert view is not None and "not read yet" in Renderer().part(view["machine_set"][0], "")


def test_the_menu_leads_to_the_sets() -> None:
    entries = [page for page in PAGES if page.name == page.place]
    assert ("machine_sets", "/machine-sets") in [(page.name, page.path) for page in entries]
