"""From what a provider says no with to our codes, and how they are counted."""

from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from support.clock import FakeClock

from kubenode.providers.errors import (
    Busy,
    Denied,
    ProviderError,
    Refused,
    Throttled,
    Unreachable,
    Unsupported,
)
from kubenode.providers.instance_errors import coded
from kubenode.providers.instances import ErrorCode, Instance, InstanceError
from kubenode.providers.metered_instances import InstanceMetrics, MeteredInstances


@pytest.mark.parametrize(
    ("kind", "looking", "changing"),
    [
        (Unreachable, ErrorCode.UNAVAILABLE, ErrorCode.UNKNOWN),
        (Denied, ErrorCode.PERMISSION_DENIED, ErrorCode.PERMISSION_DENIED),
        (Refused, ErrorCode.FAILED_PRECONDITION, ErrorCode.FAILED_PRECONDITION),
        (Busy, ErrorCode.ABORTED, ErrorCode.ABORTED),
        (Unsupported, ErrorCode.UNIMPLEMENTED, ErrorCode.UNIMPLEMENTED),
    ],
)
def test_only_what_was_asked_for_a_change_may_have_taken_effect(
    kind: type[ProviderError], looking: ErrorCode, changing: ErrorCode
) -> None:
    assert coded(kind("aws", "no"), "eu", changes=False).code is looking
    assert coded(kind("aws", "no"), "eu", changes=True).code is changing


def test_a_throttled_request_keeps_when_to_come_again_and_is_no_quota() -> None:
    error = coded(Throttled("aws", "slow down", timedelta(seconds=17)), "eu", changes=True)
    assert (error.code, error.after) == (ErrorCode.UNAVAILABLE, timedelta(seconds=17))
    assert str(error) == "eu: UNAVAILABLE: slow down"


class Failing:
    """Of Instances what is measured here."""

    name, provider, operations = "eu", "aws", frozenset[Any]()

    async def get(self, provider_id: str) -> Instance | None:
        if provider_id == "quota":
            raise InstanceError("eu", ErrorCode.RESOURCE_EXHAUSTED, "no")
        if provider_id == "mistake":
            raise ZeroDivisionError
        return None

    create = find = delete = list = operate = get
    validate = owns = close = get


async def test_each_answer_is_counted_by_its_code() -> None:
    registry = CollectorRegistry()
    inner: Any = Failing()
    metered = MeteredInstances(inner, InstanceMetrics(registry), FakeClock())
    assert await metered.get("fine") is None
    for wrong, kind in (("quota", InstanceError), ("mistake", ZeroDivisionError)):
        with pytest.raises(kind):
            await metered.get(wrong)
    counted = {
        code: registry.get_sample_value(
            "kubenode_instance_requests_total",
            {"provider": "aws", "operation": "get", "code": code},
        )
        for code in ("OK", "RESOURCE_EXHAUSTED", "CANCELLED", "UNKNOWN")
    }
    assert counted == {"OK": 1, "RESOURCE_EXHAUSTED": 1, "CANCELLED": 1, "UNKNOWN": 0}
