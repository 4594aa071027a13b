"""All receivers of the settings: queues notices and remembers their results."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from kubenode.runtime.clock import Clock
from kubenode.runtime.process import Part
from remedy.notify.channel import Channel
from remedy.notify.http import HttpSender
from remedy.notify.message import Sender
from remedy.notify.metrics import NotificationMetrics
from remedy.notify.notice import JobNotice
from remedy.notify.settings import Receiver
from remedy.notify.texts import texts

THREADS = 8
"""Threads for all receivers that use apprise."""
REMEMBERED = 4096
"""Notices with results that are remembered, for steps that wait for them."""


@dataclass(frozen=True, slots=True)
class DeliveryEnd:
    """Result of a notice at one receiver; `why` is "" if it was delivered."""

    receiver: str
    why: str


class Notifier:
    """Delivers notices. Callbacks in `on_end` get each notice and its result at one receiver."""

    def __init__(
        self,
        receivers: Mapping[str, Receiver],
        clock: Clock,
        registry: CollectorRegistry,
        cluster: str = "",
        insight_url: str = "",
    ) -> None:
        self.on_end: list[Callable[[JobNotice, DeliveryEnd], None]] = []
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="apprise")
        self._ends: OrderedDict[tuple[str, str], DeliveryEnd] = OrderedDict()
        metrics = NotificationMetrics(registry, receivers)
        self.senders: dict[str, Sender] = {
            name: self._sender(settings) for name, settings in receivers.items()
        }
        self.channels: dict[str, Channel] = {
            name: Channel(
                name,
                settings,
                texts(settings.title, settings.body, insight_url),
                self.senders[name],
                clock,
                metrics,
                self._ended,
                cluster,
            )
            for name, settings in receivers.items()
        }

    @property
    def parts(self) -> Sequence[Part]:
        return list(self.channels.values())

    def put(self, notice: JobNotice, receivers: Sequence[str]) -> list[str]:
        """Queue the notice for these receivers; return the names that the settings do not know."""
        for name in receivers:
            channel = self.channels.get(name)
            if channel is not None and (notice.id, name) not in self._ends:
                channel.put(notice)
        return [name for name in receivers if name not in self.channels]

    def end(self, notice_id: str, receiver: str) -> DeliveryEnd | None:
        """Return the result; None while it is pending, and for a notice that was never queued."""
        return self._ends.get((notice_id, receiver))

    async def close(self) -> None:
        for sender in self.senders.values():
            await sender.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _sender(self, settings: Receiver) -> Sender:
        if settings.apprise is not None:
            from remedy.notify.people import AppriseSender  # the import takes a second

            return AppriseSender(settings.apprise.urls, settings.timeout, self._threads)
        http = settings.webhook or settings.cloud_events
        assert http is not None  # the settings require exactly one
        return HttpSender(http, settings.timeout)

    def _ended(self, notice: JobNotice, receiver: str, why: str) -> None:
        end = self._ends[(notice.id, receiver)] = DeliveryEnd(receiver, why)
        while len(self._ends) > REMEMBERED:
            self._ends.popitem(last=False)
        for callback in self.on_end:
            callback(notice, end)
