"""What a set asks for is called by what it is made of."""

from typing import Any

import pytest
from support.clock import T0

from kubenode.api.v1alpha1 import Machine, MachineComponentSet
from kubenode.api.v1alpha1.machinecomponentset import SetRevision
from kubenode.api.v1alpha1.machinework import DesiredState
from kubenode.runtime.components.render import KeyText, TemplateError, TextRef
from kubenode.runtime.components.wire import ComponentSpec, spec_of
from machine.componentset.revisions import AssignableRevision, choose_name, history, named
from machine.componentset.rollout import AssignmentMove

RUNNING = DesiredState.RUNNING


def a_spec(text: str = "x=${values.x}", **rest: Any) -> ComponentSpec:
    return spec_of(
        {
            "component": "c",
            "version": "1.0",
            "source": {"type": "apt", "apt": {"packages": [{"name": "p", "version": "1"}]}},
            "files": [{"path": "/etc/c", "content": {"inline": text}}],
            **rest,
        }
    )


def a_machine(name: str = "m1", zone: str = "a", **status: Any) -> Machine:
    return Machine.model_validate(
        {
            "apiVersion": "kubenode.io/v1alpha1",
            "kind": "Machine",
            "metadata": {"name": name},
            "spec": {"addresses": ["10.0.0.1"], "failureDomain": zone},
            "status": status,
        }
    )


def made(text: str = "x=${values.x}", **rest: Any) -> AssignableRevision:
    return AssignableRevision("1-0000000001", "c-1", a_spec(text), {"x": "1"}, RUNNING, {}, **rest)


def a_set(revision: str, component: str = "c-1", values: dict[str, str] | None = None) -> Any:
    known = SetRevision(name=revision, component="c-1", values={"x": "1"})
    return MachineComponentSet.model_validate(
        {
            "apiVersion": "kubenode.io/v1alpha1",
            "kind": "MachineComponentSet",
            "metadata": {"name": "s"},
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "component": component,
                "values": values or {"x": "1"},
            },
            "status": {"updateRevision": revision, "revisions": [known.to_dict()]},
        }
    )


def test_values_state_and_texts_make_another_revision() -> None:
    ref = TextRef("Secret", "s", "k")
    names = {
        named(a_spec(), {"x": "1"}, RUNNING, {}),
        named(a_spec(), {"x": "2"}, RUNNING, {}),
        named(a_spec(), {"x": "1"}, DesiredState.STAGED, {}),
        named(a_spec(), {"x": "1"}, RUNNING, {ref: KeyText("a", "salt")}),
        named(a_spec(), {"x": "1"}, RUNNING, {ref: KeyText("b", "salt")}),
    }
    assert len(names) == 5


def test_invariant_11_a_new_version_of_hashes_renames_nothing_that_is_equal() -> None:
    set_ = a_set("1-0000000001")
    assert choose_name("2-ffffffffff", set_, lambda known: False) == "1-0000000001"
    assert choose_name("2-ffffffffff", set_, lambda known: True) == "2-ffffffffff"
    other = a_set("1-0000000001", values={"x": "2"})
    assert choose_name("2-ffffffffff", other, lambda known: False) == "2-ffffffffff"


def test_machines_that_differ_in_nothing_asked_for_have_one_hash() -> None:
    revision = made()
    assert revision.hash_on(a_machine("m1")) == revision.hash_on(a_machine("m2", zone="b"))
    zoned = made("zone=${machine.zone}")
    assert zoned.hash_on(a_machine("m1")) == zoned.hash_on(a_machine("m2"))
    assert zoned.hash_on(a_machine("m1")) != zoned.hash_on(a_machine("m2", zone="b"))


def test_a_hole_is_refused() -> None:
    with pytest.raises(TemplateError, match=r"machine\.labels\.pool"):
        made("${machine.labels.pool}").hash_on(a_machine())


def test_what_was_rendered_for_another_zone_is_stale() -> None:
    revision = made("zone=${machine.zone}")
    entry = revision.assigned(AssignmentMove("m1", revision.name), a_machine(), "s", T0)
    assert not revision.stale(entry, a_machine())
    assert revision.stale(entry, a_machine(zone="b"))
    old = entry.model_copy(update={"config_hash": "0-0000000001"})
    assert not revision.stale(old, a_machine(zone="b")), "of another way of hashing"


def test_texts_that_were_edited_are_gone_back_to_by_what_the_host_kept() -> None:
    before = {"component": "c-1", "configHash": "1-00000000aa"}
    machine = a_machine(components=[{"name": "c", "previous": before}])
    move = AssignmentMove("m1", "1-0000000001")
    assert made(exact=False).assigned(move, machine, "s", T0).config_hash == "1-00000000aa"
    assert made().assigned(move, machine, "s", T0).config_hash != "1-00000000aa"


def test_history_keeps_the_last_ten_and_all_in_use() -> None:
    known = [SetRevision(name=f"1-{i:010d}", number=i, component=f"c-{i}") for i in range(1, 15)]
    kept = history(known, made(), {"1-0000000002"}, T0)
    numbers = [r.number for r in kept]
    assert numbers == [1, 2, *range(5, 15)][1:], "made is the first, known already"
    new = AssignableRevision("1-00000000ff", "c-9", a_spec(), {}, RUNNING, {})
    assert [r.number for r in history(known, new, set(), T0)] == list(range(6, 16))
