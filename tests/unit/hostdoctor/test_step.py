"""What a HostEvent becomes when it is told of, or when nobody tells of it any more."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.host_doctor import Shelf, alert, at, group, index, node

from kubenode.api.v1alpha1.hostevent import (
    HostEvent,
    HostEventClass,
    HostEventPhase,
    HostEventSource,
)
from remedy.hostdoctor import notices
from remedy.hostdoctor.lifecycle import alive, deletable, next_at, settled
from remedy.hostdoctor.nodes import NodeIndex
from remedy.hostdoctor.parsers import PARSERS
from remedy.hostdoctor.record import note_of
from remedy.hostdoctor.report import Reported, ReportedEvents, ReportedHost

NODES = index(node("a", ("InternalIP", "10.0.0.1"), provider="aws:///eu-1a/i-0a"))
P = HostEventPhase


def reboot(phase: P | None = None, **changes: object) -> Reported:
    given = Reported(
        source=HostEventSource.AWS,
        external_id="event-1",
        class_=HostEventClass.REBOOT,
        host=ReportedHost(instance="i-0a"),
        phase=phase,
    )
    return replace(given, **changes)  # type: ignore[arg-type]


def message(event: Reported) -> ReportedEvents:
    return ReportedEvents((event,))


def listed(*events: Reported, scope: str = "aws") -> ReportedEvents:
    return ReportedEvents(
        tuple(replace(event, silent=True) for event in events), scope, complete=True
    )


def told(*steps: tuple[float, ReportedEvents], nodes: NodeIndex = NODES) -> Shelf:
    shelf = Shelf(nodes)
    for seconds, each in steps:
        shelf.tell(each, at(seconds))
    return shelf


def alerts(*given: dict[str, object]) -> ReportedEvents:
    return PARSERS["alertmanager"](group(*given), at(0))


def reason(event: HostEvent, type_: str) -> str:
    return next((c.reason for c in event.status.conditions if c.type == type_), "")


def later(event: HostEvent, seconds: float, *, alive: bool = True) -> HostEvent:
    host = note_of(event).host
    return settled(event, NODES.resolve(host), NODES, at(seconds), alerts_alive=alive)


# -- alerts --------------------------------------------------------------------------------------


def test_an_alert_becomes_one_event_about_its_node() -> None:
    event = told((30, alerts(alert(instance="10.0.0.1:9100", severity="critical")))).only()
    assert event.metadata.name.startswith("alertmanager-10-0-0-1-")
    assert (event.spec.node.name, event.spec.node.uid) == ("a", "uid-a")
    assert event.spec.node.provider_id == "aws:///eu-1a/i-0a"
    assert (event.spec.external_id, event.spec.class_) == ("aa01", HostEventClass.ALERT)
    assert event.spec.attributes["alertname"] == "NodeClockSkewDetected"
    assert (event.spec.not_before, event.spec.not_after) == (at(0), None)
    assert (event.status.phase, event.status.seen) == (P.ACTIVE, 1)
    assert reason(event, "Resolved") == "Resolved"


def test_an_alert_that_flaps_is_one_event_that_counts() -> None:
    flapping = [
        (10, alerts(alert(starts=0, node="a"))),
        (70, alerts(alert(starts=0, ends=60, node="a"))),
        (130, alerts(alert(starts=120, node="a"))),
        (190, alerts(alert(starts=120, ends=180, node="a"))),
        (250, alerts(alert(starts=240, node="a"))),
    ]
    event = told(*flapping).only()
    assert (event.status.phase, event.status.seen) == (P.ACTIVE, 3)
    assert (event.spec.not_before, event.spec.not_after) == (at(240), None)
    assert reason(event, "Ended") == "Open"


def test_an_old_firing_after_a_newer_end_opens_nothing() -> None:
    shelf = told(
        (10, alerts(alert(starts=0, node="a"))),
        (70, alerts(alert(starts=0, ends=60, node="a"))),
        (100, alerts(alert(starts=0, node="a"))),
    )
    assert shelf.phases() == ["Completed"]
    assert shelf.writes == 2


def test_the_same_start_long_after_the_end_fires_on() -> None:
    """Alertmanager thought it ended while it could not hear Prometheus."""
    shelf = told(
        (10, alerts(alert(starts=0, node="a"))),
        (70, alerts(alert(starts=0, ends=60, node="a"))),
        (70 + 301, alerts(alert(starts=0, node="a"))),
    )
    assert shelf.phases() == ["Active"]
    assert shelf.only().status.seen == 2


def test_an_end_that_says_an_earlier_start_ends_it() -> None:
    """Two Prometheus tell of one alert; Alertmanager takes the earlier start."""
    shelf = told(
        (30, alerts(alert(starts=20, node="a"))),
        (70, alerts(alert(starts=0, ends=60, node="a"))),
    )
    assert shelf.phases() == ["Completed"]


def test_an_end_of_an_earlier_time_ends_nothing() -> None:
    shelf = told(
        (130, alerts(alert(starts=120, node="a"))),
        (140, alerts(alert(starts=0, ends=60, node="a"))),
    )
    assert shelf.phases() == ["Active"]


def test_repetitions_are_written_now_and_then_and_their_ticking_texts_never() -> None:
    shelf = Shelf(NODES)
    for n in range(60):
        value = {"description": f"skew of {n} ms"}
        shelf.tell(alerts(alert(node="a", annotations=value)), at(10 * n))
    event = shelf.only()
    assert event.spec.message == "skew of 0 ms"
    assert shelf.writes == 2
    assert event.status.last_seen == at(300)


def test_the_watchdog_is_heard_every_minute() -> None:
    shelf = Shelf(NODES)
    for n in range(10):
        shelf.tell(alerts(alert("Watchdog")), at(30 * n))
    event = shelf.only()
    assert event.status.last_seen == at(240)
    assert event.spec.node.name == ""
    assert alive([event], at(240 + 599))
    assert not alive([event], at(240 + 600))


def test_a_silent_alertmanager_ends_nothing_and_a_living_one_that_forgot_does() -> None:
    event = told((0, alerts(alert(node="a")))).only()
    week = timedelta(days=7).total_seconds()
    assert later(event, week, alive=False) is event
    assert later(event, week - 3 * 86400) is event
    over = later(event, week)
    assert (over.status.phase, reason(over, "Ended")) == (P.EXPIRED, "NotToldAnyMore")


# -- messages and lists --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "phase"),
    [
        (P.AWAITING_APPROVAL, P.SCHEDULED, P.SCHEDULED),
        (P.SCHEDULED, P.ACTIVE, P.ACTIVE),
        (P.ACTIVE, P.SCHEDULED, P.ACTIVE),
        (P.ACTIVE, P.COMPLETED, P.COMPLETED),
        (P.COMPLETED, P.ACTIVE, P.COMPLETED),
        (P.CANCELLED, P.SCHEDULED, P.CANCELLED),
    ],
)
def test_messages_go_forward_only(first: P, second: P, phase: P) -> None:
    shelf = told((0, message(reboot(first))), (10, message(reboot(second))))
    assert shelf.phases() == [phase]


PHASES = [P.AWAITING_APPROVAL, P.SCHEDULED, P.ACTIVE, P.COMPLETED]


@given(st.permutations(PHASES), st.lists(st.sampled_from(PHASES)))
def test_messages_in_any_order_end_the_same(order: list[P], again: list[P]) -> None:
    shelf = Shelf(NODES)
    for n, phase in enumerate([*order, *again]):
        shelf.tell(message(reboot(phase)), at(n))
    assert shelf.phases() == ["Completed"]


def test_a_list_may_go_back_and_bring_back() -> None:
    shelf = told(
        (0, listed(reboot(P.ACTIVE))),
        (10, listed(reboot(P.SCHEDULED))),
    )
    assert shelf.phases() == ["Scheduled"]
    shelf.tell(listed(), at(20))
    assert shelf.phases() == ["Completed"]
    assert reason(shelf.only(), "Ended") == "NoLongerListed"
    shelf.tell(listed(reboot(P.ACTIVE)), at(30))
    assert (shelf.only().status.phase, shelf.only().status.seen) == (P.ACTIVE, 2)


@pytest.mark.parametrize(
    ("phase", "starts", "end"),
    [(P.SCHEDULED, 600, P.CANCELLED), (P.SCHEDULED, 5, P.COMPLETED), (P.ACTIVE, 600, P.COMPLETED)],
)
def test_what_a_complete_list_lacks_is_over(phase: P, starts: float, end: P) -> None:
    shelf = told((0, listed(reboot(phase, not_before=at(starts)))), (10, listed()))
    assert shelf.phases() == [end]


def test_other_lists_and_lists_that_are_not_whole_end_nothing() -> None:
    shelf = told((0, listed(reboot(P.ACTIVE))), (10, listed(scope="azure")))
    shelf.tell(ReportedEvents((), "aws", complete=False), at(20))
    assert shelf.phases() == ["Active"]


def test_two_lists_that_tell_of_one_event_do_not_write_over_each_other() -> None:
    poller = reboot(P.ACTIVE, message="by the API", attributes={"code": "system-reboot"})
    agent = reboot(P.SCHEDULED, message="by the host", attributes={"code": "x", "more": "1"})
    shelf = told((0, listed(poller)), (10, listed(agent, scope="agent:a/imds")))
    writes = shelf.writes
    for n in range(10):
        shelf.tell(listed(poller), at(20 + n))
        shelf.tell(listed(agent, scope="agent:a/imds"), at(20 + n))
    assert shelf.writes == writes
    event = shelf.only()
    assert (event.spec.message, event.status.phase) == ("by the API", P.ACTIVE)
    shelf.tell(listed(), at(40))
    assert shelf.phases() == ["Active"], "the host still lists it"
    shelf.tell(listed(scope="agent:a/imds"), at(50))
    assert shelf.phases() == ["Completed"]


def test_what_is_under_way_from_a_time_on_becomes_active_then() -> None:
    event = told((0, message(reboot(not_before=at(60))))).only()
    assert event.status.phase is P.SCHEDULED
    assert next_at(event, at(0)) == at(60)
    assert later(event, 59) is event
    assert later(event, 60).status.phase is P.ACTIVE


def test_what_the_source_calls_scheduled_stays_so_until_it_says_otherwise() -> None:
    event = told((0, message(reboot(P.SCHEDULED, not_before=at(60))))).only()
    assert later(event, 3600) is event


def test_the_class_follows_its_source_when_it_changes_under_one_id() -> None:
    started = reboot(P.ACTIVE, class_=HostEventClass.HARDWARE_FAULT)
    event = told((0, message(reboot(P.SCHEDULED))), (9, message(started))).only()
    assert (event.spec.class_, event.status.phase) == (HostEventClass.HARDWARE_FAULT, P.ACTIVE)


def test_a_message_of_another_class_counts_though_its_phase_is_an_earlier_one() -> None:
    freeze = reboot(P.ACTIVE, class_=HostEventClass.FREEZE)
    event = told((0, message(freeze)), (9, message(reboot(P.SCHEDULED)))).only()
    assert (event.spec.class_, event.status.phase) == (HostEventClass.REBOOT, P.SCHEDULED)


def test_a_maintenance_of_gcp_that_ends_the_instance_is_no_freeze_after_a_migration() -> None:
    def said(text: str) -> ReportedEvents:
        found = PARSERS["gcp_maintenance_event"](text, at(0))
        host = ReportedHost(instance="i-0a")
        return replace(found, events=tuple(replace(e, host=host) for e in found.events))

    texts = ("MIGRATE_ON_HOST_MAINTENANCE", "NONE", "TERMINATE_ON_HOST_MAINTENANCE")
    shelf = told(*((60 * n, said(text)) for n, text in enumerate(texts)))
    event = shelf.only()
    assert event.spec.class_ is not HostEventClass.FREEZE
    assert event.status.phase is P.SCHEDULED


@pytest.mark.parametrize("tell", [message, listed])
def test_an_end_that_is_said_no_more_reopens_nothing(tell: Any) -> None:
    shelf = told((0, tell(reboot(not_after=at(60)))))
    over = later(shelf.only(), 60)
    shelf.events[over.metadata.name] = over
    shelf.tell(tell(reboot()), at(70))
    assert shelf.phases() == ["Expired"]


def test_an_end_that_is_past_expires_it_unless_the_end_moves() -> None:
    shelf = told((0, message(reboot(P.ACTIVE, not_after=at(60)))))
    over = later(shelf.only(), 60)
    assert (over.status.phase, reason(over, "Ended")) == (P.EXPIRED, "PastNotAfter")
    shelf.events[over.metadata.name] = over
    shelf.tell(message(reboot(P.ACTIVE, not_after=at(60))), at(70))
    assert shelf.phases() == ["Expired"]
    shelf.tell(message(reboot(P.ACTIVE, not_after=at(600))), at(80))
    assert shelf.phases() == ["Active"]


def test_advice_lasts_an_hour_however_often_it_is_given() -> None:
    advice = reboot(advisory=True, class_=HostEventClass.REBALANCE)
    shelf = told((0, listed(advice)), (3000, listed(advice)))
    over = later(shelf.only(), 3600)
    assert (over.status.phase, reason(over, "Ended")) == (P.EXPIRED, "Advisory")
    shelf.events[over.metadata.name] = over
    shelf.tell(listed(advice), at(4000))
    assert shelf.phases() == ["Expired"]
    assert not deletable(shelf.only(), at(3600 + 86400)), "it is still being told of"


def test_a_closed_event_goes_a_day_after_it_was_last_heard_of() -> None:
    event = told((0, message(reboot(P.COMPLETED)))).only()
    assert not deletable(event, at(86399))
    assert deletable(event, at(86400))
    assert next_at(event, at(0)) == at(86400)


def test_what_an_agent_alone_could_end_ends_with_its_node() -> None:
    event = told((0, listed(reboot(P.ACTIVE), scope="agent:a/imds"))).only()
    assert later(event, 60) is event
    over = settled(event, NODES.resolve(None), NodeIndex(), at(60), alerts_alive=True)
    assert (over.status.phase, reason(over, "Ended")) == (P.EXPIRED, "NodeGone")


def test_one_without_a_status_gets_it_after_a_minute() -> None:
    """Whoever made it died between two writes."""
    whole = told((0, message(reboot(not_before=at(600))))).only()
    made = whole.metadata.model_copy(update={"creation_timestamp": at(0)})
    bare = whole.model_copy(update={"metadata": made, "status": type(whole.status)()})
    assert later(bare, 59) is bare
    healed = later(bare, 60)
    assert (healed.status.phase, healed.status.first_seen) == (P.SCHEDULED, at(0))
    assert reason(healed, "Resolved") == "Resolved"


# -- whose machine -------------------------------------------------------------------------------


def test_an_event_of_an_unknown_machine_finds_its_node_later() -> None:
    nobody = NodeIndex()
    event = told((0, message(reboot(P.ACTIVE))), nodes=nobody).only()
    assert (event.spec.node.name, reason(event, "Resolved")) == ("", "NotFound")
    host = nobody.resolve(ReportedHost(instance="i-0a"))
    assert settled(event, host, nobody, at(9), alerts_alive=True) is event
    found = later(event, 10)
    assert (found.spec.node.name, reason(found, "Resolved")) == ("a", "Resolved")


def test_its_name_does_not_depend_on_the_node_being_there() -> None:
    early = told((0, message(reboot(P.ACTIVE))), nodes=NodeIndex()).only()
    late = told((0, message(reboot(P.ACTIVE)))).only()
    whole = ReportedHost("aws:///eu-1a/i-0a", "i-0a", ("a",))
    agent = told((0, message(reboot(P.ACTIVE, host=whole)))).only()
    assert early.metadata.name == late.metadata.name == agent.metadata.name


def test_people_are_told_once_each_time_of_what_no_rule_can_see() -> None:
    shelf = told((0, alerts(alert("KubeletDown", cluster="prod"))))
    first = shelf.only()
    notice = notices.of(None, first)
    assert notice is not None and notice.reason == "AlertWithoutNode"
    assert notice.message.startswith("KubeletDown: Clock skew.")
    shelf.tell(alerts(alert("KubeletDown", cluster="prod")), at(400))
    assert notices.of(first, shelf.only()) is None
    lost = told((0, alerts(alert(node="gone")))).only()
    notice = notices.of(None, lost)
    assert notice is not None and notice.reason == "HostEventUnresolved"
    assert notices.of(None, told((0, alerts(alert(node="a")))).only()) is None
    assert notices.of(None, told((0, alerts(alert("Watchdog")))).only()) is None


def test_everything_is_cut_to_what_the_api_takes() -> None:
    labels = {f"l{n:02}": "x" * 5000 for n in range(60)}
    long = reboot(P.ACTIVE, external_id="e" * 2000, message="m" * 9000, attributes=labels)
    event = told((0, message(long))).only()
    HostEvent.model_validate(event.to_dict())
    assert len(event.spec.attributes) == 32
    other = told((0, message(replace(long, external_id="e" * 2000 + "!")))).only()
    assert other.spec.external_id != event.spec.external_id
    assert other.metadata.name != event.metadata.name


def test_a_time_to_the_nanosecond_is_no_later_one_when_it_is_read_back() -> None:
    """HostEvents keep milliseconds, Prometheus tells more."""
    given = {**alert(node="a"), "startsAt": "2026-01-10T08:00:00.123456789Z"}
    shelf = told((10, alerts(given)))
    name, event = shelf.only().metadata.name, shelf.only()
    shelf.events[name] = stored = HostEvent.model_validate(event.to_dict())
    shelf.tell(alerts(given), at(20))
    assert shelf.events[name] is stored
    over = {**given, "status": "resolved", "endsAt": "2026-01-10T08:00:00.123456789Z"}
    shelf.tell(alerts(over), at(30))
    assert shelf.phases() == ["Completed"]


def test_an_alert_without_a_start_goes_on_and_fires_anew_after_its_end() -> None:
    given = {key: value for key, value in alert(node="a").items() if key != "startsAt"}
    over = {**given, "status": "resolved"}
    shelf = told((10, alerts(given)), (20, alerts(given)))
    assert shelf.writes == 1
    shelf.tell(alerts(over), at(30))
    assert shelf.phases() == ["Completed"]
    shelf.tell(alerts(given), at(40))
    assert (shelf.only().status.phase, shelf.only().status.seen) == (P.ACTIVE, 2)


def test_an_alert_without_an_end_ends_once() -> None:
    bare = {k: v for k, v in alert(node="a", ends=60).items() if not k.endswith("At")}
    shelf = told((10, alerts(bare)), (20, alerts(bare)), (400, alerts(bare)))
    assert (shelf.phases(), shelf.writes) == (["Completed"], 1)
