"""The newest state of each condition: whose it is, since when, and what is untold."""

from datetime import datetime, timedelta

import pytest
from support.clock import T0

from agent.detectors import NOT_LOOKED_AT, ConditionReport, ReportedStatus
from agent.nodestatus.board import (
    MESSAGE_BYTES,
    MESSAGES_BYTES,
    NOBODY,
    ConditionBoard,
    KnownCondition,
    ReportNews,
    cut,
)

OWNERS = {"KernelDeadlock": "kernel-monitor", "Pressure": "psi"}
LATER = timedelta(minutes=5)


def report(
    status: ReportedStatus, reason: str = "R", message: str = "m", **changes: object
) -> object:
    values: dict[str, object] = {"type": "KernelDeadlock", "at": T0, "detector": "kernel-monitor"}
    values |= {"status": status, "reason": reason, "message": message, **changes}
    return ConditionReport(**values)  # type: ignore[arg-type]


def put(board: ConditionBoard, made: object, now: datetime = T0 + LATER) -> ReportNews:
    assert isinstance(made, ConditionReport)
    return board.put(made.detector, made, now)


def known(board: ConditionBoard, type_: str = "KernelDeadlock") -> KnownCondition:
    return next(k for k in board.all() if k.type == type_)


@pytest.fixture
def board() -> ConditionBoard:
    made = ConditionBoard(OWNERS)
    made.begin(T0)
    return made


def test_what_nobody_has_looked_at_is_unknown(board: ConditionBoard) -> None:
    assert {(k.type, k.status, k.reason) for k in board.all()} == {
        (name, ReportedStatus.UNKNOWN, NOT_LOOKED_AT) for name in OWNERS
    }


def test_a_restart_keeps_what_was_known_and_its_age() -> None:
    old = KnownCondition(
        type="KernelDeadlock",
        status=ReportedStatus.TRUE,
        reason="DockerHung",
        message="m",
        since=T0 - timedelta(hours=3),
        detector="kernel-monitor",
    )
    board = ConditionBoard(OWNERS, [old])
    board.begin(T0)
    assert put(board, report(ReportedStatus.UNKNOWN, NOT_LOOKED_AT)) is ReportNews.NONE
    assert known(board) == old
    assert put(board, report(ReportedStatus.TRUE, "DockerHung", "m")) is ReportNews.NONE
    assert known(board).since == old.since


def test_unknown_that_was_found_out_takes_effect(board: ConditionBoard) -> None:
    put(board, report(ReportedStatus.TRUE))
    assert put(board, report(ReportedStatus.UNKNOWN, "CheckCannotRun")) is ReportNews.STATE
    assert known(board).status is ReportedStatus.UNKNOWN


def test_the_transition_is_that_of_the_status_and_not_of_the_reason(board: ConditionBoard) -> None:
    put(board, report(ReportedStatus.TRUE, "One"))
    assert put(board, report(ReportedStatus.TRUE, "Two", at=T0 + LATER)) is ReportNews.STATE
    assert (known(board).reason, known(board).since) == ("Two", T0)


def test_a_new_message_alone_is_no_news(board: ConditionBoard) -> None:
    put(board, report(ReportedStatus.TRUE, message="80 %"))
    board.mark_published(board.untold())
    assert put(board, report(ReportedStatus.TRUE, message="81 %")) is ReportNews.MESSAGE
    assert board.untold() == []
    board.started("kernel-monitor")
    assert [k.message for k in board.renewable()] == ["81 %"]


def test_no_transition_before_the_last_or_in_the_future(board: ConditionBoard) -> None:
    put(board, report(ReportedStatus.TRUE, at=T0 + LATER))
    put(board, report(ReportedStatus.FALSE, at=T0))
    assert known(board).since == T0 + LATER
    put(board, report(ReportedStatus.TRUE, at=T0 + timedelta(days=400)), T0 + 2 * LATER)
    assert known(board).since == T0 + 2 * LATER


@pytest.mark.parametrize(
    "changes",
    [{"detector": "psi"}, {"type": "Pressure"}, {"type": "Ready"}, {"type": "Unheard"}],
    ids=str,
)
def test_a_detector_says_nothing_of_what_is_not_its_own(
    board: ConditionBoard, changes: dict[str, str]
) -> None:
    with pytest.raises(ValueError, match="does not own condition"):
        put(board, report(ReportedStatus.TRUE, **changes))


def test_f03_what_no_running_detector_stands_for_is_not_renewed(board: ConditionBoard) -> None:
    put(board, report(ReportedStatus.TRUE))
    put(board, report(ReportedStatus.FALSE, type="Pressure", detector="psi"))
    board.mark_published(board.untold())
    for detector in ("kernel-monitor", "psi"):
        board.started(detector)
    assert [k.type for k in board.renewable()] == ["KernelDeadlock", "Pressure"]
    board.failed("kernel-monitor")
    assert [k.type for k in board.renewable()] == ["Pressure"]


def test_what_changes_while_it_is_told_stays_untold(board: ConditionBoard) -> None:
    put(board, report(ReportedStatus.TRUE))
    sent = board.untold()
    put(board, report(ReportedStatus.FALSE, at=T0 + LATER))
    board.mark_published(sent)
    assert [(k.type, k.status) for k in board.untold()] == [
        ("KernelDeadlock", ReportedStatus.FALSE)
    ]


def test_a_condition_that_nobody_watches_any_more_is_said_to_be_so_once() -> None:
    board = ConditionBoard(OWNERS)
    board.begin(T0)
    put(board, report(ReportedStatus.TRUE))
    again = ConditionBoard({}, board.all())
    again.begin(T0 + LATER)
    told = again.untold()
    assert {(k.type, k.status, k.reason) for k in told} == {
        (name, ReportedStatus.UNKNOWN, NOBODY) for name in OWNERS
    }
    again.mark_published(told)
    assert again.all() == []


@pytest.mark.parametrize("text", ["", "x" * 5000, "ü" * 3000, "a\0b", "\ud800"])
def test_messages_are_bounded_and_printable(text: str) -> None:
    shown = cut(text, MESSAGE_BYTES)
    assert len(shown.encode()) <= MESSAGE_BYTES
    assert "\0" not in shown


def test_messages_of_many_conditions_are_bounded_together() -> None:
    """The admission policy bounds the Node as a whole: beyond it no condition would be told."""
    many = ConditionBoard({f"C{n}": "d" for n in range(90)})
    for n in range(90):
        put(many, report(ReportedStatus.TRUE, message="ä" * 5000, type=f"C{n}", detector="d"))
    assert sum(len(k.message.encode()) for k in many.all()) <= MESSAGES_BYTES
    assert all(len(k.message.encode()) > 300 for k in many.all())
