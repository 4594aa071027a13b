"""Which changes of a Machine are looked at at once, and which are gathered."""

from dataclasses import replace
from typing import Any

import pytest
from support.machine_double import MACHINE, running

from kubenode.api.v1alpha1 import Machine
from machine.machine.controller import SETTLE

NAME = MACHINE.rpartition("/")[2]
COMPONENT = {
    "name": "runc",
    "component": "runc-1",
    "revision": "1-0000000001",
    "configHash": "1-00000000cc",
}


async def changed(**change: Any) -> tuple[tuple[str, ...], list[tuple[str, float]]]:
    """What is looked at at once, and what later."""
    double, later = await running(), list[tuple[str, float]]()
    before = double.there
    double.change(MACHINE, **change)
    controller = replace(
        double.controller(), later=lambda name, seconds: later.append((name, seconds))
    )
    return controller.of_machine(NAME, before, double.there), later


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"components": [COMPONENT]}},
        {"status": {"components": [{**COMPONENT, "state": "Applying"}]}},
    ],
)
async def test_what_goes_on_with_components_is_gathered(change: Any) -> None:
    assert await changed(**change) == ((), [(NAME, SETTLE)])


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"minReady": "5m"}},
        {"metadata": {"annotations": {"kubenode.io/pre-drain-x": ""}}},
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {"status": {"bootstrap": {"tokenID": "ffffff"}}},
    ],
)
async def test_whatever_else_changes_is_looked_at_at_once(change: Any) -> None:
    assert await changed(**change) == ((NAME,), [])


async def test_a_machine_that_comes_or_goes_and_a_resync_are_looked_at_at_once() -> None:
    double = await running()
    controller, there = double.controller(), double.there
    pairs: list[tuple[Machine | None, Machine | None]] = [
        (None, there),
        (there, None),
        (there, there),
    ]
    assert all(controller.of_machine(NAME, *pair) == (NAME,) for pair in pairs)


async def test_what_we_wrote_ourselves_is_no_news() -> None:
    double, later = await running(), list[tuple[str, float]]()
    double.change(MACHINE, spec={"components": [COMPONENT]})
    before, told = double.there, list(double.told)
    controller = replace(
        double.controller(), later=lambda name, seconds: later.append((name, seconds))
    )
    await controller.reconcile(NAME)
    assert double.there.status.phase == "Updating"
    assert controller.of_machine(NAME, before, double.there) == ()
    assert later == []
    assert double.told == told
