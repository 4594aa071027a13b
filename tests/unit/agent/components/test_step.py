"""The pure step over every state, move and observation: only drawn edges, always an end."""

from collections.abc import Iterator
from itertools import product

import pytest
from msgspec.structs import replace
from support.clock import T0

from agent.components.model import (
    MOVING,
    PUT,
    TAKE,
    ComponentApplyState,
    ComponentHealth,
    ComponentMove,
    ComponentObservation,
    ComponentRecord,
    MoveResult,
    Off,
    StoredComponent,
)
from agent.components.step import EDGES, LIVE, ComponentAct, interrupted, repairing, step, taken_up
from kubenode.runtime.components import wire
from kubenode.runtime.components.render import RenderedFiles
from kubenode.runtime.components.wire import WireChangeClass

SOURCE = wire.WireComponentSource("apt", apt=wire.WirePackages([wire.WirePackage("runc", "1")]))


def kept(version: str, undo: wire.WireUndoMode = wire.WireUndoMode.AUTO) -> StoredComponent:
    spec = wire.ComponentSpec("runc", version, SOURCE, undo=wire.WireUndo(undo))
    return StoredComponent(f"runc-{version}", "1-0123456789", spec, RenderedFiles(), "Running")


OLD, NEW = kept("1.0"), kept("1.1")
STUBBORN = kept("1.1", wire.WireUndoMode.NONE)
ASSIGNED = wire.Assigned("runc", "runc-1.1", "1-a", "1-0123456789")
DONES = (None, MoveResult(), MoveResult("it failed"), MoveResult("for good", final=True))


def records() -> Iterator[ComponentRecord]:
    for state, applied, target in product(
        ComponentApplyState, (None, OLD, NEW), (None, NEW, STUBBORN)
    ):
        if state in LIVE and applied is None:
            continue
        if (
            state
            in (
                ComponentApplyState.APPLYING,
                ComponentApplyState.VERIFYING,
                ComponentApplyState.UNDOING,
            )
            and target is None
        ):
            continue
        moves: tuple[ComponentMove | None, ...] = (None,)
        if state in MOVING:
            moves = (
                *(PUT if state is not ComponentApplyState.REMOVING else TAKE),
                ComponentMove.REBOOT,
            )
        for at, how, fresh, tries in product(
            moves, (WireChangeClass.NONE, WireChangeClass.REBOOT), (False, True), (0, 9)
        ):
            if state not in MOVING and (tries or how is WireChangeClass.REBOOT):
                continue
            record = ComponentRecord(
                name="runc",
                state=state,
                revision="1-a",
                attempt=1,
                applied=applied,
                target=target,
                at=at,
                how=how,
                fresh=fresh,
                tries=tries,
                boot_id="boot-1" if at is ComponentMove.REBOOT else "",
            )
            yield record
            if state in MOVING:
                yield interrupted(record)


def views(state: ComponentApplyState) -> Iterator[ComponentObservation]:
    """Those that differ for this state; all of them for those that look at all of it."""
    desired = ("Running", "Installed", "Staged", "Absent", "Unheard")
    assigned = [None, *(wire.Assigned("runc", "c", r, "1-0") for r in ("1-a", "1-b"))]
    assigned += [wire.Assigned("runc", "c", "1-a", "1-0", desired_state=d) for d in desired]
    dones = DONES if state in MOVING or state is ComponentApplyState.STAGING else DONES[:1]
    asks = (
        (True, False)
        if state
        in (ComponentApplyState.PENDING, ComponentApplyState.BLOCKED, ComponentApplyState.STAGED)
        else (False,)
    )
    for one, known, done in product(assigned, (True, False), dones):
        base = ComponentObservation(now=T0, boot_id="boot-1", known=known, assigned=one, done=done)
        if state in MOVING:
            yield base
            yield replace(base, permitted=True)
            yield ComponentObservation(
                now=T0, boot_id="boot-2", known=known, assigned=one, done=done
            )
            yield ComponentObservation(now=T0, boot_id="", known=known, assigned=one, done=done)
            continue
        if state in LIVE or state is ComponentApplyState.VERIFYING:
            for health, off, permitted, flag in product(
                ComponentHealth, Off, (True, False), (True, False)
            ):
                yield ComponentObservation(
                    now=T0,
                    boot_id="boot-1",
                    known=known,
                    assigned=one,
                    target=NEW,
                    observe=flag,
                    overdue=flag,
                    health=health,
                    off=off,
                    permitted=permitted,
                    how=WireChangeClass.RESTART,
                )
            continue
        for target, problem, same, permitted, waits, off, flag in product(
            (None, NEW),
            (("", ""), ("BadTemplate", "x")),
            asks,
            asks,
            ("", "waits for x") if any(asks) else ("",),
            (Off.NONE, Off.CORRECT, Off.START),
            (True, False),
        ):
            yield ComponentObservation(
                now=T0,
                boot_id="boot-1",
                known=known,
                assigned=one,
                target=target if known and one is not None else None,
                problem=problem,
                same=same,
                permitted=permitted,
                waits=waits,
                off=off,
                observe=flag,
                there=flag,
                done=done,
                how=WireChangeClass.RESTART,
            )


@pytest.mark.exhaustive
@pytest.mark.parametrize("state", ComponentApplyState)
def test_only_drawn_edges_are_taken_and_never_with_an_act(state: ComponentApplyState) -> None:
    taken, repairable = set(), False
    seen = list(views(state))
    for record in (record for record in records() if record.state is state):
        repairable |= repairing(record) is not None
        for view in seen:
            after, act = step(record, view)
            if after != record:
                assert act is ComponentAct.NONE, (record, view)
            if after.state is not state:
                assert after.state in EDGES[state], (record, view, after)
                taken.add(after.state)
            if act in (ComponentAct.MOVE, ComponentAct.REBOOT):
                assert state in MOVING and not record.interrupted
            if record.interrupted and not after.interrupted and after.state is state:
                assert view.permitted and after == replace(record, needs=None)
            if state in MOVING and after.state is ComponentApplyState.PENDING:
                assert record.interrupted and after.stray == (record.target or record.stray)
            if act in (ComponentAct.START, ComponentAct.CORRECT):
                assert record.applied is not None and not view.observe
            if (
                after.state is ComponentApplyState.APPLYING
                and state is not ComponentApplyState.APPLYING
            ):
                assert view.permitted and not view.waits and not view.observe
            if (
                after.state is ComponentApplyState.REMOVING
                and state is not ComponentApplyState.REMOVING
            ):
                assert view.permitted and not view.waits and not view.observe
            if (
                after.state is ComponentApplyState.HEALTHY
                and state is ComponentApplyState.VERIFYING
            ):
                assert view.health is ComponentHealth.GOOD and after.applied == record.target
            if state is ComponentApplyState.APPLYING and after.state is ComponentApplyState.FAILED:
                assert after.stray == record.target
            if act is ComponentAct.FORGET:
                assert view.known and view.assigned is None
    by_repair = {ComponentApplyState.APPLYING} if repairable else set()
    assert set(EDGES[state]) <= taken | by_repair, "edges that nothing takes"


def test_every_state_has_its_edges() -> None:
    assert set(EDGES) == set(ComponentApplyState)
    assert all(state not in after for state, after in EDGES.items())


@pytest.mark.parametrize("state", sorted(MOVING))
def test_a_change_comes_to_its_end_whatever_is_wanted_meanwhile(state: ComponentApplyState) -> None:
    """Not in the middle for ever: all moves done, a boot, and it is somewhere else."""
    for first in (record for record in records() if record.state is state):
        record, boots = first, 0
        for _ in range(3 * len(PUT)):
            if record.state not in MOVING:
                break
            done = MoveResult()
            view = ComponentObservation(
                now=T0,
                boot_id=f"boot-{boots}",
                known=True,
                assigned=None,
                done=done,
                permitted=True,
            )
            after, act = step(record, view)
            boots += act is ComponentAct.REBOOT
            if record == after and act is ComponentAct.NONE:
                boots += 1
            record = after
        assert record.state not in MOVING, first


def test_f23_the_boot_id_proves_a_reboot_and_nothing_else() -> None:
    at_boot = ComponentRecord(
        name="runc",
        state=ComponentApplyState.APPLYING,
        revision="1-a",
        attempt=1,
        target=NEW,
        at=ComponentMove.REBOOT,
        how=WireChangeClass.REBOOT,
        boot_id="boot-1",
    )

    def next_on(boot_id: str) -> tuple[ComponentApplyState, ComponentAct]:
        after, act = step(at_boot, ComponentObservation(now=T0, boot_id=boot_id, assigned=ASSIGNED))
        return after.state, act

    assert next_on("boot-1") == (ComponentApplyState.APPLYING, ComponentAct.REBOOT)
    assert next_on("") == (ComponentApplyState.APPLYING, ComponentAct.REBOOT)
    assert next_on("boot-2") == (ComponentApplyState.VERIFYING, ComponentAct.NONE)


def test_what_is_interrupted_again_and_again_is_taken_back() -> None:
    record = ComponentRecord(
        name="runc",
        state=ComponentApplyState.APPLYING,
        applied=OLD,
        target=NEW,
        at=ComponentMove.SOFTWARE,
        attempt=1,
    )
    for _ in range(4):
        record = taken_up(record)
    after, _ = step(record, ComponentObservation(now=T0, boot_id="b", assigned=ASSIGNED))
    assert after.state is ComponentApplyState.UNDOING and "interrupted" in after.message
