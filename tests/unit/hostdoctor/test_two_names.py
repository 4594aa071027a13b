"""AWS calls one reboot by two IDs: its Health tells of it, and DescribeInstanceStatus lists it."""

from datetime import timedelta
from typing import Any

import pytest
from support.clock import T0
from support.host_doctor import Shelf, index, node
from support.remedy_hand import Hands

from remedy.hostdoctor.parsers import PARSERS
from remedy.hostdoctor.report import ReportedEvents

INSTANCE = "i-0123456789abcdef0"
BEGINS = T0 + timedelta(hours=1)
ENDS = BEGINS + timedelta(hours=1)
RULE: dict[str, Any] = {"hostEvent": {"class": "Reboot", "startsWithin": "2h"}}


def listed() -> ReportedEvents:
    event = {
        "InstanceEventId": "instance-event-1",
        "Code": "system-reboot",
        "Description": "scheduled reboot",
        "NotBefore": BEGINS,
        "NotAfter": ENDS,
    }
    page = {"InstanceStatuses": [{"InstanceId": INSTANCE, "Events": [event]}]}
    return PARSERS["aws_instance_status"](page, T0)


def told_by_health() -> ReportedEvents:
    detail = {
        "eventArn": "arn:aws:health:eu-west-1::event/EC2/X/X-1",
        "service": "EC2",
        "eventTypeCategory": "scheduledChange",
        "eventTypeCode": "AWS_EC2_SYSTEM_REBOOT_MAINTENANCE_SCHEDULED",
        "startTime": BEGINS.strftime("%a, %d %b %Y %H:%M:%S GMT"),
        "endTime": ENDS.strftime("%a, %d %b %Y %H:%M:%S GMT"),
        "eventDescription": [{"language": "en_US", "latestDescription": "reboot"}],
        "affectedEntities": [{"entityValue": INSTANCE}],
    }
    sent = {
        "id": "7bf73129",
        "detail-type": "AWS Health Event",
        "source": "aws.health",
        "time": T0.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "detail": detail,
    }
    return PARSERS["aws_eventbridge"](sent, T0)


@pytest.mark.parametrize("at_once", [True, False])
async def test_both_are_the_evidence_of_one_job(at_once: bool) -> None:
    hands = Hands()
    await hands.rule(when=RULE)
    hands.node()
    uid = hands.nodes.cache["n1"].metadata.uid
    shelf = Shelf(index(node("n1", provider=f"aws:///eu-west-1a/{INSTANCE}", uid=uid)))
    for told in (listed(), told_by_health()):
        shelf.tell(told, T0)
        for event in shelf.events.values():
            hands.host_events.put(event.to_dict())
        if not at_once:
            await hands.decide()
    assert len(shelf.events) == 2
    await hands.settle()
    (job,) = hands.made()
    assert set(job.spec.host_events) <= set(shelf.events)
    assert len(job.spec.host_events) == (2 if at_once else 1)
    assert job.spec.deadline == BEGINS
