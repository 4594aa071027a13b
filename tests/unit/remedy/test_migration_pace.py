"""How fast pods are asked to leave, and what is remembered of the asking."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from support.clock import T0, FakeClock
from support.remedy_builders import an_object, running

from kubenode.api.v1alpha1 import RemedyOperationJob
from kubenode.runtime.drain.budgets import of_budget, selects
from kubenode.runtime.drain.gate import AT_ONCE, AT_ONCE_OF_NODE, DrainGate
from kubenode.runtime.drain.memory import CACHE_DELAY, DrainMemory
from kubenode.runtime.drain.observation import Blocked
from kubenode.runtime.kube.errors import KubeError, TooManyRequests
from kubenode.runtime.kube.objects import Pod, PodDisruptionBudget
from remedy.job.migration.cordon_index import CORDONING, cordoning

SECOND = timedelta(seconds=1)


def a_pod(name: str) -> Pod:
    return msgspec.convert({"metadata": {"name": name, "namespace": "shop", "uid": name}}, Pod)


# -- the gate --------------------------------------------------------------------------------------


async def test_few_requests_are_under_way_at_a_time_over_all_nodes() -> None:
    gate, now, most = DrainGate(FakeClock()), 0, 0

    async def ask(item: int) -> int:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        return item

    async with asyncio.TaskGroup() as tasks:
        nodes = [tasks.create_task(gate.each(range(30), ask)) for _ in range(20)]
    assert [node.result() for node in nodes] == [list(range(30))] * 20
    assert AT_ONCE_OF_NODE < most <= AT_ONCE


async def test_a_server_that_asks_for_patience_gets_it_and_more_each_time() -> None:
    clock = FakeClock()
    gate = DrainGate(clock)
    assert gate.calm is None
    pauses: list[timedelta] = []
    for _ in range(8):
        gate.throttled(None)
        assert gate.calm is not None
        pauses.append(gate.calm - clock.now())
        clock.step(pauses[-1])
        assert gate.calm is None
    assert pauses == sorted(pauses) and pauses[0] < pauses[-1] == timedelta(seconds=30)
    gate.throttled(45)
    assert gate.calm == clock.now() + 45 * SECOND
    clock.step(45 * SECOND)
    gate.served()
    gate.throttled(None)
    assert gate.calm is not None and gate.calm - clock.now() < 3 * SECOND


@pytest.mark.parametrize(
    ("error", "budget"),
    [
        (
            TooManyRequests(429, "", "Cannot evict pod", causes=frozenset({"DisruptionBudget"})),
            True,
        ),
        (TooManyRequests(429, "", "too many requests, please try again later", 1.0), False),
        (KubeError(500, "", "This pod has more than one PodDisruptionBudget, which"), True),
        (KubeError(504, "Timeout", 'couldn\'t update PodDisruptionBudget "web" due'), True),
        (KubeError(500, "InternalError", "etcdserver: no leader"), False),
    ],
)
def test_a_budgets_refusal_is_told_from_the_servers_own(error: KubeError, budget: bool) -> None:
    assert of_budget(error) is budget


# -- what is remembered ----------------------------------------------------------------------------


def test_a_refused_pod_is_tried_less_and_less_often_and_at_least_once_a_minute() -> None:
    memory, now = DrainMemory(), T0
    pauses: list[timedelta] = []
    memory.listed("job", [a_pod("a")])
    for _ in range(30):
        told = memory.refused("job", "a", Blocked("shop/a", "pdb=shop/a", "no"), now)
        assert told.until is not None and memory.list_pending("job", now) == {"a": told.until}
        pauses.append(told.until - now)
        now = told.until
    assert (pauses[0], pauses[-1]) == (5 * SECOND, 60 * SECOND)
    assert pauses == sorted(pauses) and memory.list_pending("job", now) == {}


def test_a_pod_that_was_told_to_go_is_not_told_again_at_once() -> None:
    memory = DrainMemory()
    memory.listed("job", [a_pod("a"), a_pod("b")])
    memory.gone("job", "a", T0)
    assert set(memory.list_pending("job", T0)) == {"a"} and memory.blocked("job") is None
    assert memory.list_pending("job", T0 + CACHE_DELAY) == {}


def test_whoever_is_gone_and_whatever_is_over_is_forgotten() -> None:
    memory = DrainMemory()
    memory.listed("job", [a_pod("a")])
    memory.refused("job", "a", Blocked("shop/a", "", "no"), T0)
    memory.listed("job", [a_pod("b")])
    assert memory.blocked("job") is None and memory.pods("job", ["shop/a", "shop/b"])
    memory.forget("job")
    assert memory.every("job") == []


# -- who cordons before anybody evicts -------------------------------------------------------------

STEPS: list[dict[str, Any]] = [{"cordon": {}}, {"migrate": {}}]
DONE = {"rung": 0, "index": 0, "name": "cordon", "state": "Done"}


@pytest.mark.parametrize(
    ("status", "steps", "waits"),
    [
        (running(0), STEPS, True),
        (running(1, DONE), STEPS, False),
        ({"phase": "AwaitingPermit"}, STEPS, False),
        (running(0), [{"migrate": {}}], False),
        (running(0), [{"notify": {}}, *STEPS], True),
        (running(0), [{"migrate": {}}, {"cordon": {}}], False),
    ],
)
def test_evictions_wait_for_jobs_that_may_act_and_have_not_cordoned(
    status: dict[str, Any], steps: list[dict[str, Any]], waits: bool
) -> None:
    obj = an_object({"name": "drain", "steps": steps})
    obj = RemedyOperationJob.model_validate({**obj.to_dict(), "status": status})
    assert cordoning(obj) == ([CORDONING] if waits else [])


@pytest.mark.parametrize(
    ("selector", "holds"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "a"}}, True),
        ({"matchLabels": {"app": "b"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}, True),
        ({"matchExpressions": [{"key": "x", "operator": "Exists"}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Unheard"}]}, False),
    ],
)
def test_budgets_select_as_the_api_server_says(
    selector: dict[str, Any] | None, holds: bool
) -> None:
    pod = a_pod("a")
    pod.metadata.labels = {"app": "a"}
    spec = {} if selector is None else {"selector": selector}
    budget = msgspec.convert({"metadata": {"name": "b"}, "spec": spec}, PodDisruptionBudget)
    assert selects(budget, pod) is holds
