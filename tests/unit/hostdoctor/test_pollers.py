"""Sources that are asked: what fails is seen and ends nothing, a message goes when it is stored."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from support.clock import FakeClock

from kubenode.providers.errors import Denied, ProviderError, Throttled, Unreachable
from kubenode.providers.events import EventListing, QueueMessage
from kubenode.runtime.kube.errors import Conflict
from remedy.hostdoctor.desk import NotReady
from remedy.hostdoctor.pollers.metrics import PollerMetrics
from remedy.hostdoctor.pollers.pace import LONGEST, after_failure
from remedy.hostdoctor.pollers.poller import ListPoller, QueuePoller
from remedy.hostdoctor.pollers.schedule import Pollers
from remedy.hostdoctor.report import Reported, ReportedEvents

MINUTE = timedelta(minutes=1)
OURS, OTHERS = "i-0123456789abcdef0", "i-0fedcba9876543210"


class Desk:
    """Keeps what it is told; `broken` is raised instead."""

    def __init__(self) -> None:
        self.ready = True
        self.told: list[ReportedEvents] = []
        self.broken: Exception | None = None

    async def take(self, told: ReportedEvents) -> object:
        if self.broken is not None:
            raise self.broken
        self.told.append(told)
        return None


class Status:
    """An EventList of EC2's status checks."""

    name, where, every = "aws", "DescribeInstanceStatus of eu-west-1", MINUTE

    def __init__(self) -> None:
        self.impaired: list[str] = []
        self.broken: ProviderError | None = None
        self.whole = True
        self.payload: Any = None

    async def list_events(self) -> Sequence[EventListing]:
        if self.broken is not None:
            raise self.broken
        payload = self.payload or {
            "InstanceStatuses": [
                {"InstanceId": one, "SystemStatus": {"Status": "impaired"}} for one in self.impaired
            ]
        }
        return [EventListing("aws_instance_status", "aws/eu-west-1", payload, self.whole)]

    async def check(self) -> str:
        return ""

    async def close(self) -> None:
        pass


class Queue:
    """An EventQueue that gives what was not deleted again."""

    name, where = "aws-queue", "https://sqs/queue"

    def __init__(self, *bodies: str) -> None:
        self.left = {str(n): body for n, body in enumerate(bodies)}
        self.broken: ProviderError | None = None

    async def receive(self) -> Sequence[QueueMessage]:
        return [QueueMessage(key, key, "aws_sqs", body) for key, body in self.left.items()]

    async def delete(self, messages: Sequence[QueueMessage]) -> None:
        if self.broken is not None:
            raise self.broken
        for message in messages:
            del self.left[message.receipt]

    async def check(self) -> str:
        return ""

    async def close(self) -> None:
        pass


class World:
    def __init__(self) -> None:
        self.clock, self.desk = FakeClock(), Desk()
        self.registry = CollectorRegistry()
        self.metrics = PollerMetrics(self.registry)
        self.status = Status()

    def ours(self, event: Reported) -> bool:
        return event.host is not None and event.host.instance == OURS

    def list_poller(self) -> ListPoller:
        return ListPoller(self.status, self.desk, self.ours, self.clock, self.metrics)

    def queue_poller(self, queue: Queue) -> QueuePoller:
        return QueuePoller(queue, self.desk, self.ours, self.clock, self.metrics)

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"kubenode_hostdoctor_{name}", labels)


def change(instance: str = OURS, state: str = "stopping") -> str:
    return json.dumps(
        {
            "detail-type": "EC2 Instance State-change Notification",
            "time": "2026-01-01T11:59:59Z",
            "detail": {"instance-id": instance, "state": state},
        }
    )


TEST = json.dumps({"Event": "autoscaling:TEST_NOTIFICATION"})


async def test_a_look_is_told_under_the_sources_own_scope_and_about_our_machines_alone() -> None:
    world = World()
    world.status.impaired = [OURS, OTHERS]
    assert await world.list_poller().once() == MINUTE
    (told,) = world.desk.told
    assert (told.scope, told.complete, len(told.events)) == ("aws/eu-west-1", True, 1)
    assert world.value("foreign_total", source="aws") == 1
    assert world.value("looks_total", source="aws", result="ok") == 1
    assert world.value("last_look_timestamp_seconds", source="aws") == (
        world.clock.now().timestamp()
    )


async def test_an_empty_list_is_told_because_it_ends_what_it_lacks() -> None:
    world = World()
    await world.list_poller().once()
    assert [(told.complete, told.events) for told in world.desk.told] == [(True, ())]


async def test_a_list_that_a_part_of_the_cloud_did_not_answer_for_ends_nothing() -> None:
    world = World()
    world.status.whole = False
    await world.list_poller().once()
    assert [told.complete for told in world.desk.told] == [False]


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (Unreachable("aws", "no answer"), "unreachable"),
        (Denied("aws", "UnauthorizedOperation"), "denied"),
        (Throttled("aws", "slow down"), "throttled"),
    ],
)
async def test_a_look_that_fails_tells_nothing_and_is_counted(
    error: ProviderError, result: str
) -> None:
    world = World()
    world.status.broken = error
    assert await world.list_poller().once() > timedelta(0)
    assert world.desk.told == []
    assert world.value("looks_total", source="aws", result=result) == 1
    assert world.value("looks_total", source="aws", result="ok") == 0
    assert world.value("last_look_timestamp_seconds", source="aws") == 0


async def test_an_answer_that_cannot_be_read_is_counted_and_ends_nothing() -> None:
    world = World()
    world.status.payload = {"InstanceStatuses": "none"}
    await world.list_poller().once()
    assert world.desk.told == []
    assert world.value("looks_total", source="aws", result="unreadable") == 1


async def test_a_failure_is_told_once_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    poller = world.list_poller()
    world.status.broken = Unreachable("aws", "no answer")
    caplog.set_level("INFO")
    for _ in range(4):
        await poller.once()
    world.status.broken = None
    await poller.once()
    assert [record.message for record in caplog.records] == [
        "a source of events cannot be read",
        "a source of events answers again",
    ]


def test_the_wait_grows_to_an_end_and_who_says_when_is_believed() -> None:
    away = Unreachable("aws", "no answer")
    waits = [after_failure(n, MINUTE, away) for n in range(1, 200)]
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (timedelta(seconds=5), LONGEST)
    told = Throttled("aws", "slow down", timedelta(minutes=20))
    assert after_failure(1, MINUTE, told) == timedelta(minutes=20)


async def test_nothing_is_asked_before_it_is_known_which_machines_are_ours() -> None:
    world = World()
    world.desk.ready = False
    queue = Queue(change())
    await world.list_poller().once()
    await world.queue_poller(queue).once()
    assert (world.desk.told, len(queue.left)) == ([], 1)
    assert world.value("looks_total", source="aws", result="ok") == 0


async def test_a_message_goes_when_it_is_stored_or_asks_for_nothing() -> None:
    world = World()
    queue = Queue(change(), TEST, change(OTHERS))
    assert await world.queue_poller(queue).once() == timedelta(0)
    assert queue.left == {}
    assert sum(len(told.events) for told in world.desk.told) == 1
    fates = {f: world.value("messages_total", source="aws-queue", fate=f) for f in ("stored",)}
    assert fates == {"stored": 1}
    assert world.value("messages_total", source="aws-queue", fate="ignored") == 2


@pytest.mark.parametrize(
    "error",
    [NotReady("the caches are being filled"), Conflict(409, "Conflict", "somebody wrote first")],
)
async def test_a_message_that_was_not_stored_comes_again(error: Exception) -> None:
    world = World()
    queue = Queue(change())
    poller = world.queue_poller(queue)
    world.desk.broken = error
    assert await poller.once() > timedelta(0)
    assert len(queue.left) == 1
    assert world.value("messages_total", source="aws-queue", fate="not_stored") == 1
    world.desk.broken = None
    await poller.once()
    assert (queue.left, len(world.desk.told)) == ({}, 1)


async def test_a_message_that_nobody_can_read_is_left_to_the_dead_letter_queue() -> None:
    world = World()
    queue = Queue("{poison", change())
    poller = world.queue_poller(queue)
    await poller.once()
    await poller.once()
    assert list(queue.left.values()) == ["{poison"]
    assert len(world.desk.told) == 1
    assert world.value("messages_total", source="aws-queue", fate="unreadable") == 2


async def test_a_message_that_could_not_be_deleted_is_told_twice_and_does_no_harm() -> None:
    world = World()
    queue = Queue(change())
    poller = world.queue_poller(queue)
    queue.broken = Unreachable("aws-queue", "not deleted")
    await poller.once()
    queue.broken = None
    await poller.once()
    first, second = world.desk.told
    assert first == second


class Counting(ListPoller):
    """Notes when it is asked; the third time it makes a mistake."""

    def __init__(self, world: World) -> None:
        super().__init__(world.status, world.desk, world.ours, world.clock, world.metrics)
        self.asked = 0

    async def once(self) -> timedelta:
        self.asked += 1
        if self.asked == 3:
            raise ZeroDivisionError
        return timedelta(0)


async def test_a_mistake_of_ours_ends_the_process_and_no_source_is_forgotten() -> None:
    world = World()
    poller = Counting(world)
    with pytest.raises(ZeroDivisionError):
        await Pollers([poller], world.clock).run()
    assert poller.asked == 3
