"""How much a revision disturbs a machine, against what is assigned there now."""

from typing import Any

import pytest

from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machinework import AssignedComponent, DesiredState
from kubenode.runtime.components import wire
from kubenode.runtime.components.render import KeyText, TextRef
from kubenode.runtime.components.wire import WireChangeClass
from machine.componentset.disturbance import Disturbance, disturbance
from machine.componentset.revisions import AssignableRevision

C = WireChangeClass
REF = TextRef("ConfigMap", "conf", "main")


def made(
    version: str, text: str = "a", x: str = "1", **desired: DesiredState
) -> AssignableRevision:
    plain: dict[str, Any] = {
        "component": "c",
        "version": version,
        "source": {"type": "apt", "apt": {"packages": [{"name": "p", "version": version}]}},
        "files": [
            {"path": "/a", "content": {"inline": "x=${values.x}"}, "onChange": "Reload"},
            {
                "path": "/b",
                "content": {"configMapKey": {"name": "conf", "key": "main"}},
                "onChange": "Restart",
            },
        ],
        "disruption": {"major": "Reboot", "minor": "Drain", "patch": "Restart"},
    }
    state = desired.get("desired", DesiredState.RUNNING)
    spec = wire.spec_of(plain)
    return AssignableRevision(
        f"1-{version}", f"c-{version}", spec, {"x": x}, state, {REF: KeyText(text, "")}
    )


def on(has: AssignableRevision | None, state: str = "Running") -> Machine:
    bare = Machine.model_validate(
        {
            "apiVersion": "kubenode.io/v1alpha1",
            "kind": "Machine",
            "metadata": {"name": "m"},
            "spec": {"addresses": ["10.0.0.1"]},
        }
    )
    if has is None:
        return bare
    entry = AssignedComponent(
        name="c",
        component=has.component,
        revision="1-90d2c7e1fa",
        config_hash=has.hash_on(bare),
        values=dict(has.values),
        desired_state=DesiredState(state),
    )
    return bare.model_copy(update={"spec": bare.spec.model_copy(update={"components": [entry]})})


@pytest.mark.parametrize(
    ("before", "after", "class_"),
    [
        (made("1.0.0"), made("1.0.1"), C.RESTART),
        (made("1.0.0"), made("1.1.0"), C.DRAIN),
        (made("1.0.0"), made("2.0.0"), C.REBOOT),
        (made("1.0.0"), made("1.0.0", x="2"), C.RELOAD),
        (made("1.0.0"), made("1.0.0", text="b"), C.RESTART),
    ],
)
def test_it_is_the_class_of_the_difference(
    before: AssignableRevision, after: AssignableRevision, class_: WireChangeClass
) -> None:
    found = disturbance(on(before), after, None, lambda entry: before)
    assert found == Disturbance(before.component, class_)


def test_the_same_again_is_nothing() -> None:
    found = disturbance(on(made("1.0.0")), made("1.0.0"), None, lambda entry: made("1.0.0"))
    assert found.nothing and found.class_ is C.NONE


def test_what_was_edited_since_is_taken_as_wholly_different() -> None:
    edited = made("1.0.0", text="new")
    found = disturbance(on(made("1.0.0")), edited, None, lambda entry: edited)
    assert found.at_most and found.class_ is C.RESTART and not found.nothing


def test_nothing_there_is_an_installation() -> None:
    found = disturbance(on(None), made("1.0.0"), None, lambda entry: None)
    assert (found.before, found.class_) == ("", made("1.0.0").spec.disruption.install)


def test_what_is_gone_cannot_be_compared() -> None:
    found = disturbance(on(made("1.0.0")), made("2.0.0"), None, lambda entry: None)
    assert found == Disturbance("c-1.0.0")


def test_a_machine_that_downloads_ahead_still_has_the_revision_before() -> None:
    machine = on(made("2.0.0"), "Staged")
    found = disturbance(machine, made("2.0.0"), made("1.9.0"), lambda entry: made("2.0.0"))
    assert found == Disturbance("c-1.9.0", C.REBOOT)
