"""Jobs that have not begun: which of them a breaker counts as faults."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from support.clock import T0
from support.remedy_builders import RESTART, an_object

from defender.decision.breaker.faults import report_job
from defender.decision.jobs import ObservedJob

GROUP, STARTUP = "GroupWait", "StartupGrace"


def a_job(reason: str | None, status: dict[str, Any]) -> ObservedJob:
    wait = {"since": T0.isoformat(), "notBefore": T0.isoformat(), "reason": reason}
    obj = an_object(RESTART, initialWait=wait if reason else None)
    body = obj.to_dict() | {"status": status}
    return msgspec.convert(body, ObservedJob)


@pytest.mark.parametrize(
    ("reason", "status", "counts"),
    [
        (None, {"phase": "Pending"}, True),
        (GROUP, {"phase": "Pending"}, True),
        (GROUP, {"phase": "Pending", "hold": {"reason": STARTUP}}, False),
        (STARTUP, {"phase": "Pending"}, False),
        (STARTUP, {"phase": "AwaitingPermit", "timeline": {"jobCreated": T0.isoformat()}}, True),
        (GROUP, {"phase": "Cancelled"}, False),
        (STARTUP, {"phase": "Cancelled"}, False),
        (GROUP, {"phase": "Cancelled", "timeline": {"jobCreated": T0.isoformat()}}, True),
        (None, {"phase": "Cancelled"}, True),
    ],
)
def test_node_that_comes_up_and_fault_that_went_before_its_job_began_are_no_faults(
    reason: str | None, status: dict[str, Any], counts: bool
) -> None:
    assert (report_job(a_job(reason, status), T0 + timedelta(minutes=1)) is not None) is counts
