"""Log lines that agents cannot use are visible on the metrics page of the operator."""

import msgspec
from prometheus_client import CollectorRegistry
from support.agent_jobs import an_event

from kubenode.runtime.kube.objects import Event
from remedy.remedier.unread_lines import KINDS, UnreadLines

NAME = "kubenode_remedy_unread_log_lines_total"


def event(reason: str, count: int = 1) -> Event:
    return msgspec.convert(an_event("a", reason=reason, count=count), Event)


def page() -> tuple[UnreadLines, CollectorRegistry]:
    registry = CollectorRegistry()
    return UnreadLines(registry), registry


def test_unread_lines_metric_has_each_kind_at_zero_before_any_event() -> None:
    _, registry = page()
    assert [registry.get_sample_value(NAME, {"kind": kind}) for kind in KINDS.values()] == [0, 0, 0]


def test_unread_lines_metric_counts_what_each_version_of_an_event_adds() -> None:
    lines, registry = page()
    first, second = event("LogLineNotUnderstood"), event("LogLineNotUnderstood", 4)
    lines.changed("default/a", None, first)
    lines.changed("default/a", first, second)
    lines.changed("default/a", second, second)
    lines.changed("default/a", second, None)
    assert registry.get_sample_value(NAME, {"kind": "not_understood"}) == 4
    assert registry.get_sample_value(NAME, {"kind": "lost"}) == 0


def test_unread_lines_metric_leaves_out_events_about_faults() -> None:
    lines, registry = page()
    lines.changed("default/a", None, event("TaskHung", 9))
    assert sum(registry.get_sample_value(NAME, {"kind": k}) or 0 for k in KINDS.values()) == 0
