"""What a case brings to Host Doctor: in the forms of the sources, and what it implies of before."""

from typing import Any

import pytest

from remedy.hostdoctor.nodes import instance_of
from simulation.cases.form import Case
from simulation.cases.outside import addresses, announced, entries, provider_id, unheard

from .test_case_form import CASE


def event(transport: str, payload: Any, provider: str = "aws") -> dict[str, Any]:
    told = {"provider": provider, "transport": transport, "payload": payload}
    return {"signal": "host_event", "at_s": 0, **told}


def case(*signals: dict[str, Any], **facts: Any) -> Case:
    return Case.model_validate({**CASE, "signals": list(signals), "facts": facts})


def planned(state: str, starts: str) -> dict[str, Any]:
    one = {"EventId": "e1", "Code": "system-reboot", "Description": "x", "NotAfter": ""}
    return event("aws_imds_scheduled", [{**one, "State": state, "NotBefore": starts}])


@pytest.mark.parametrize(
    ("provider", "instance"),
    [("aws", "i-0abc"), ("azure", "vmss_vm1"), ("gcp", "node-1"), ("alibaba", "i-bp1abc")],
)
def test_the_machine_is_called_as_its_cloud_calls_it(provider: str, instance: str) -> None:
    told = case(event("aws_sqs", {}, provider), instance=instance)
    assert instance_of(provider_id(told)) == instance


def test_an_instance_label_is_an_address_without_its_port() -> None:
    known = {"10.0.0.5:9100": "a", "[fd00::5]:9100": "a", "host-a": "a", "10.0.0.6:9100": "b"}
    told = case(event("aws_sqs", {}), node_of_instance=known)
    assert addresses(told, "a") == ["10.0.0.5", "fd00::5", "host-a"]


def test_metadata_comes_from_the_agent_and_alerts_from_nobody() -> None:
    alert = {"signal": "alert", "at_s": 0, "status": "firing", "labels": {"alertname": "X"}}
    told = list(entries(case(event("azure_imds", {"Events": []}, "azure"), alert)))
    assert [(entry.node, entry.delivery is not None) for entry in told] == [("a", True), ("", True)]


def test_what_is_called_off_before_its_time_was_announced_before() -> None:
    (before,) = announced(case(planned("canceled", "10 Jan 2026 11:00:00 GMT")))
    assert before.node == "a"
    assert before.at < case(planned("canceled", "x")).now
    assert not announced(case(planned("canceled", "10 Jan 2026 09:00:00 GMT")))
    assert not announced(case(planned("active", "10 Jan 2026 11:00:00 GMT")))


def test_an_open_event_of_the_same_cloud_was_announced_and_began() -> None:
    known = [{"provider": "azure", "event_id": "e1", "type": "Reboot", "phase": "started"}]
    empty = event("azure_imds", {"DocumentIncarnation": 9, "Events": []}, "azure")
    found = announced(case(empty, open_host_events=known))
    assert [str(told.reports.events[0].phase) for told in found] == ["Scheduled", "Active"]
    assert not announced(case(event("aws_sqs", {}), open_host_events=known))


def test_a_form_that_nobody_reads_is_no_mistake_of_the_case() -> None:
    told = case(event("azure_imds_post", {"StartRequests": []}, "azure"))
    assert unheard(told)
    assert list(entries(told)) == []
