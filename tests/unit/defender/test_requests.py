"""The record of what Kube Defender was asked lately."""

from datetime import datetime, timedelta

from support.clock import T0
from support.defender_core import an_ask

from defender.decision.requests import Requests
from kubenode.api.v1alpha1 import Disruption, Reason, Verdict

MINUTE = timedelta(minutes=1)


def no(reason: Reason = Reason.CONCURRENCY_LIMIT) -> Verdict:
    return Verdict(allowed=False, reason=reason)


def yes(permit: str = "p1") -> Verdict:
    return Verdict(allowed=True, reason=Reason.GRANTED, permit=permit)


def asked(record: Requests, node: str, *answers: Verdict, at: datetime = T0) -> None:
    for number, verdict in enumerate(answers):
        record.answered(an_ask(node), verdict, at + number * MINUTE)


def test_asks_of_one_holder_are_one_request_until_it_is_granted() -> None:
    record = Requests(T0)
    asked(record, "n1", no(), no(Reason.RATE_LIMIT), no(), yes(), yes())
    (shown,) = record.page().requests
    assert (shown.first_asked, shown.granted_at) == (T0, T0 + 3 * MINUTE)
    assert (shown.last_asked, shown.count) == (T0 + 4 * MINUTE, 5)
    assert shown.held == {Reason.CONCURRENCY_LIMIT: 2, Reason.RATE_LIMIT: 1}
    assert shown.verdict.allowed


def test_what_is_asked_anew_after_a_permit_was_given_back_is_another_request() -> None:
    record = Requests(T0)
    asked(record, "n1", yes("p1"), no(), yes("p2"))
    first, second = record.page().requests
    assert (first.verdict.permit, second.verdict.permit) == ("p1", "p2")
    assert second.first_asked == T0 + MINUTE


def test_a_stronger_class_is_another_request() -> None:
    record = Requests(T0)
    record.answered(an_ask("n1", Disruption.PODS), yes(), T0)
    record.answered(an_ask("n1", Disruption.NODE), no(), T0)
    assert len(record) == 2


def test_dry_runs_are_not_kept() -> None:
    record = Requests(T0)
    record.answered(an_ask("n1", dry_run=True), yes(), T0)
    assert len(record) == 0


def test_it_is_bounded_and_says_how_many_it_dropped() -> None:
    record = Requests(T0, most=3)
    for number in range(5):
        asked(record, f"n{number}", no(), at=T0 + number * MINUTE)
    page = record.page()
    assert [r.ask.node for r in page.requests] == ["n2", "n3", "n4"]
    assert page.dropped == 2


def test_granted_ones_are_dropped_before_those_that_wait() -> None:
    record = Requests(T0, most=2)
    asked(record, "n1", no())
    asked(record, "n2", yes("p1"), yes("p2"), at=T0 + MINUTE)
    assert [r.ask.node for r in record.page().requests] == ["n1", "n2"]


def test_what_nobody_asked_for_a_day_is_forgotten() -> None:
    record = Requests(T0)
    asked(record, "n1", no())
    asked(record, "n2", no(), at=T0 + timedelta(hours=25))
    assert [r.ask.node for r in record.page().requests] == ["n2"]
    assert record.dropped == 0


def test_pages_follow_one_another_by_the_last_ask() -> None:
    record = Requests(T0)
    for number in range(5):
        asked(record, f"n{number}", no(), at=T0 + number * MINUTE)
    seen: list[str] = []
    since = None
    while True:
        page = record.page(since, limit=2).requests
        seen += [r.ask.node for r in page if r.ask.node not in seen]
        if len(page) < 2:
            break
        since = page[-1].last_asked
    assert seen == ["n0", "n1", "n2", "n3", "n4"]
