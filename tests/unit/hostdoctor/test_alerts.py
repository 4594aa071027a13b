"""Webhooks of Alertmanager and Grafana: what is understood, passed over, refused."""

import json
from typing import Any

import pytest
from support.case_data import shared_folder
from support.host_doctor import NOW, alert, group, stamp

from kubenode.api.v1alpha1.hostevent import HostEventPhase
from kubenode.api.v1alpha1.noderemedier import Severity
from remedy.hostdoctor.parsers import PARSERS
from remedy.hostdoctor.parsers.alerts import fingerprint
from remedy.hostdoctor.report import ParseError, ReportedEvents, ReportedHost


def sample(n: int) -> ReportedEvents:
    text = (shared_folder() / "alertmanager_webhook_v4.json").read_text()
    return parsed(json.loads(text)["samples"][n]["payload"])


def parsed(payload: Any, transport: str = "alertmanager") -> ReportedEvents:
    return PARSERS[transport](payload, NOW)


def test_the_label_node_is_the_node_whatever_instance_says() -> None:
    told = sample(0)
    assert [event.host for event in told.events] == [ReportedHost(names=("worker-17",))]
    assert told.events[0].phase is HostEventPhase.ACTIVE
    assert told.complete


def test_a_truncated_group_with_a_start_and_a_clear_is_no_whole_list() -> None:
    told = sample(1)
    assert [(e.phase, e.host) for e in told.events] == [
        (HostEventPhase.ACTIVE, ReportedHost(names=("10.0.0.21:9100",))),
        (HostEventPhase.COMPLETED, ReportedHost(names=("10.0.0.22:9100",))),
    ]
    assert not told.complete
    assert "3 alerts were left out" in told.ignored[0]


def test_an_alert_of_the_cluster_is_about_no_machine() -> None:
    assert [event.host for event in sample(2).events] == [None]


@pytest.mark.parametrize(
    ("labels", "host"),
    [
        ({"node": "a", "instance": "10.0.0.1:8080"}, ReportedHost(names=("a",))),
        ({"kubernetes_node": "a"}, ReportedHost(names=("a",))),
        ({"instance": "a.example:9100"}, ReportedHost(names=("a.example:9100",))),
        ({"instance": "a:9100", "hostname": "a"}, ReportedHost(names=("a:9100", "a"))),
        ({"instance": "10.1.2.3:8080", "job": "kube-state-metrics"}, None),
        ({"node": "", "cluster": "prod"}, None),
        ({"namespace": "shop", "pod": "x"}, None),
    ],
)
def test_what_an_alert_is_about(labels: dict[str, str], host: ReportedHost | None) -> None:
    given = alert()
    given["labels"] |= labels
    assert parsed(group(given)).events[0].host == host


@pytest.mark.parametrize(
    ("word", "severity"),
    [
        ("critical", Severity.CRITICAL),
        ("Critical", Severity.CRITICAL),
        ("page", Severity.CRITICAL),
        ("warning", Severity.WARNING),
        ("info", Severity.INFO),
        ("none", Severity.INFO),
        ("whatever", Severity.WARNING),
    ],
)
def test_severities(word: str, severity: Severity) -> None:
    assert parsed(group(alert(severity=word))).events[0].severity is severity


def test_version_3_has_no_fingerprints_and_they_are_the_same_all_the_same() -> None:
    old = group(alert(instance="a:9100"))
    old |= {"version": "3", "groupKey": 1234}
    del old["alerts"][0]["fingerprint"]
    assert parsed(old).events[0].external_id == fingerprint(old["alerts"][0]["labels"])
    assert fingerprint({}) == "cbf29ce484222325", "Prometheus' of no labels"


def test_one_alert_twice_in_a_delivery_counts_as_it_stands_last() -> None:
    told = parsed(group(alert(ends=60), alert(starts=0)))
    assert [event.phase for event in told.events] == [HostEventPhase.COMPLETED]
    told = parsed(group(alert(ends=60), alert(starts=90)))
    assert [event.phase for event in told.events] == [HostEventPhase.ACTIVE]


def test_a_wrong_alert_is_passed_over_and_the_others_count() -> None:
    wrong: dict[str, Any] = {**alert(), "status": "flapping"}
    told = parsed(group(wrong, {"status": "firing"}, alert(fingerprint="b")))
    assert [event.external_id for event in told.events] == ["b"]
    assert told.ignored == (
        "alerts[0].status: is 'flapping'; it must be firing or resolved",
        "alerts[1].labels.alertname: is missing; every alert has a name",
    )


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        ([], "body: is []; it must be a JSON object"),
        ({"version": "4"}, "alerts: is None; it must be a JSON list"),
        ({"version": "5", "alerts": []}, "version: is '5'; it must be 4 or 3"),
        ({"alerts": [7]}, "alerts[0]: is 7; it must be a JSON object"),
        ({"alerts": [{}] * 10_001}, "alerts: are 10001, at most 10000 are taken; set max_alerts"),
        (
            {"alerts": [{**alert(), "startsAt": "soon"}]},
            "alerts[0].startsAt: is 'soon'; it must be a time as in 2026-01-10T08:00:00Z",
        ),
    ],
)
def test_what_is_no_delivery_is_refused_by_name(payload: Any, why: str) -> None:
    with pytest.raises(ParseError) as refused:
        parsed(payload)
    assert str(refused.value) == why


def test_times_of_go_are_read_to_the_nanosecond_and_of_any_zone() -> None:
    given = {**alert(), "startsAt": "2026-01-10T09:00:00.123456789+01:00"}
    found = parsed(group(given)).events[0]
    assert found.not_before is not None
    assert found.not_before.isoformat() == "2026-01-10T08:00:00.123456+00:00"
    assert found.not_after is None


def test_grafana_says_more_and_labels_count() -> None:
    given = {
        **alert(ends=None, instance="a:9100", orgId="label"),
        "values": {"B": 22.5, "A": 1},
        "dashboardURL": "https://grafana/d/1",
        "panelURL": "",
        "silenceURL": "https://grafana/silence",
    }
    body = {**group(given), "version": "1", "orgId": 7, "state": "alerting", "title": "x"}
    event = parsed(body, "grafana").events[0]
    assert event.external_id == "grafana/7/aa01"
    assert event.attributes["values"] == '{"A": 1, "B": 22.5}'
    assert event.attributes["dashboardURL"] == "https://grafana/d/1"
    assert event.attributes["orgId"] == "label"
    assert "panelURL" not in event.attributes


def test_grafanas_old_form_is_named() -> None:
    with pytest.raises(ParseError, match="Grafana before version 9"):
        parsed({"ruleName": "x", "state": "alerting", "evalMatches": []}, "grafana")


def test_an_end_is_the_end_of_a_resolved_one_alone() -> None:
    later = {**alert(), "endsAt": stamp(300)}
    assert parsed(group(later)).events[0].not_after is None
