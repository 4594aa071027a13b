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
    Done,
    Health,
    Kept,
    Move,
    Off,
    Record,
    Seen,
    State,
)
from agent.components.step import EDGES, LIVE, Act, interrupted, repairing, step, taken_up
from kubenode.runtime.components import wire
from kubenode.runtime.components.render import RenderedFiles
from kubenode.runtime.components.wire import ChangeClass

SOURCE = wire.ComponentSource("apt", apt=wire.Packages([wire.Package("runc", "1")]))


def kept(version: str, undo: wire.UndoMode = wire.UndoMode.AUTO) -> Kept:
    spec = wire.ComponentSpec("runc", version, SOURCE, undo=wire.Undo(undo))
    return Kept(f"runc-{version}", "1-0123456789", spec, RenderedFiles(), "Running")


OLD, NEW = kept("1.0"), kept("1.1")
STUBBORN = kept("1.1", wire.UndoMode.NONE)
ASSIGNED = wire.Assigned("runc", "runc-1.1", "1-a", "1-0123456789")
DONES = (None, Done(), Done("it failed"), Done("for good", final=True))


def records() -> Iterator[Record]:
    for state, applied, target in product(State, (None, OLD, NEW), (None, NEW, STUBBORN)):
        if state in LIVE and applied is None:
            continue
        if state in (State.APPLYING, State.VERIFYING, State.UNDOING) and target is None:
            continue
        moves: tuple[Move | None, ...] = (None,)
        if state in MOVING:
            moves = (*(PUT if state is not State.REMOVING else TAKE), Move.REBOOT)
        for at, how, fresh, tries in product(
            moves, (ChangeClass.NONE, ChangeClass.REBOOT), (False, True), (0, 9)
        ):
            if state not in MOVING and (tries or how is ChangeClass.REBOOT):
                continue
            record = Record(
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
                boot_id="boot-1" if at is Move.REBOOT else "",
            )
            yield record
            if state in MOVING:
                yield interrupted(record)


def views(state: State) -> Iterator[Seen]:
    """Those that differ for this state; all of them for those that look at all of it."""
    desired = ("Running", "Installed", "Staged", "Absent", "Unheard")
    assigned = [None, *(wire.Assigned("runc", "c", r, "1-0") for r in ("1-a", "1-b"))]
    assigned += [wire.Assigned("runc", "c", "1-a", "1-0", desired_state=d) for d in desired]
    dones = DONES if state in MOVING or state is State.STAGING else DONES[:1]
    asks = (True, False) if state in (State.PENDING, State.BLOCKED, State.STAGED) else (False,)
    for one, known, done in product(assigned, (True, False), dones):
        base = Seen(now=T0, boot_id="boot-1", known=known, assigned=one, done=done)
        if state in MOVING:
            yield base
            yield replace(base, permitted=True)
            yield Seen(now=T0, boot_id="boot-2", known=known, assigned=one, done=done)
            yield Seen(now=T0, boot_id="", known=known, assigned=one, done=done)
            continue
        if state in LIVE or state is State.VERIFYING:
            for health, off, permitted, flag in product(Health, Off, (True, False), (True, False)):
                yield Seen(
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
                    how=ChangeClass.RESTART,
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
            yield Seen(
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
                how=ChangeClass.RESTART,
            )


@pytest.mark.exhaustive
@pytest.mark.parametrize("state", State)
def test_only_drawn_edges_are_taken_and_never_with_an_act(state: State) -> None:
    taken, repairable = set(), False
    seen = list(views(state))
    for record in (record for record in records() if record.state is state):
        repairable |= repairing(record) is not None
        for view in seen:
            after, act = step(record, view)
            if after != record:
                assert act is Act.NONE, (record, view)
            if after.state is not state:
                assert after.state in EDGES[state], (record, view, after)
                taken.add(after.state)
            if act in (Act.MOVE, Act.REBOOT):
                assert state in MOVING and not record.interrupted
            if record.interrupted and not after.interrupted and after.state is state:
                assert view.permitted and after == replace(record, needs=None)
            if state in MOVING and after.state is State.PENDING:
                assert record.interrupted and after.stray == (record.target or record.stray)
            if act in (Act.START, Act.CORRECT):
                assert record.applied is not None and not view.observe
            if after.state is State.APPLYING and state is not State.APPLYING:
                assert view.permitted and not view.waits and not view.observe
            if after.state is State.REMOVING and state is not State.REMOVING:
                assert view.permitted and not view.waits and not view.observe
            if after.state is State.HEALTHY and state is State.VERIFYING:
                assert view.health is Health.GOOD and after.applied == record.target
            if state is State.APPLYING and after.state is State.FAILED:
                assert after.stray == record.target
            if act is Act.FORGET:
                assert view.known and view.assigned is None
    by_repair = {State.APPLYING} if repairable else set()
    assert set(EDGES[state]) <= taken | by_repair, "edges that nothing takes"


def test_every_state_has_its_edges() -> None:
    assert set(EDGES) == set(State)
    assert all(state not in after for state, after in EDGES.items())


@pytest.mark.parametrize("state", sorted(MOVING))
def test_a_change_comes_to_its_end_whatever_is_wanted_meanwhile(state: State) -> None:
    """Not in the middle for ever: all moves done, a boot, and it is somewhere else."""
    for first in (record for record in records() if record.state is state):
        record, boots = first, 0
        for _ in range(3 * len(PUT)):
            if record.state not in MOVING:
                break
            done = Done()
            view = Seen(
                now=T0,
                boot_id=f"boot-{boots}",
                known=True,
                assigned=None,
                done=done,
                permitted=True,
            )
            after, act = step(record, view)
            boots += act is Act.REBOOT
            if record == after and act is Act.NONE:
                boots += 1
            record = after
        assert record.state not in MOVING, first


def test_f23_the_boot_id_proves_a_reboot_and_nothing_else() -> None:
    at_boot = Record(
        name="runc",
        state=State.APPLYING,
        revision="1-a",
        attempt=1,
        target=NEW,
        at=Move.REBOOT,
        how=ChangeClass.REBOOT,
        boot_id="boot-1",
    )

    def next_on(boot_id: str) -> tuple[State, Act]:
        after, act = step(at_boot, Seen(now=T0, boot_id=boot_id, assigned=ASSIGNED))
        return after.state, act

    assert next_on("boot-1") == (State.APPLYING, Act.REBOOT)
    assert next_on("") == (State.APPLYING, Act.REBOOT)
    assert next_on("boot-2") == (State.VERIFYING, Act.NONE)


def test_what_is_interrupted_again_and_again_is_taken_back() -> None:
    record = Record(
        name="runc", state=State.APPLYING, applied=OLD, target=NEW, at=Move.SOFTWARE, attempt=1
    )
    for _ in range(4):
        record = taken_up(record)
    after, _ = step(record, Seen(now=T0, boot_id="b", assigned=ASSIGNED))
    assert after.state is State.UNDOING and "interrupted" in after.message
