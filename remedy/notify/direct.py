"""Calls receivers directly and returns their answers: without a queue and without a summary.

Only receivers in the settings with a webhook or CloudEvents can be called.
"""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from remedy.notify.http import HttpReply, HttpSender, encoded
from remedy.notify.message import NotDelivered, RenderedNotice
from remedy.notify.notice import JobNotice
from remedy.notify.settings import CloudEvents, Receiver, Webhook
from remedy.notify.texts import BadTemplate, NoticeTexts, texts


class DirectNotifier:
    """Calls receivers. Every method raises only NotDelivered."""

    def __init__(
        self, receivers: Mapping[str, Receiver], cluster: str = "", insight_url: str = ""
    ) -> None:
        self._cluster = cluster
        self._known = {
            name: _PendingReply(settings, http, insight_url)
            for name, settings in receivers.items()
            if (http := settings.webhook or settings.cloud_events) is not None
        }
        self._others = frozenset(receivers) - frozenset(self._known)

    async def tell(self, receiver: str, notice: JobNotice) -> None:
        """Send the notice; return once it was accepted (2xx)."""
        target = self._of(receiver)
        try:
            title, body = target.texts.of(notice, self._cluster)
        except BadTemplate as error:
            raise NotDelivered(f"its template {error}", final=True) from error
        message = RenderedNotice(notice, title, body, self._cluster)
        (await target.sender.post(*encoded(message, target.http))).check()

    async def ask(
        self, receiver: str, body: Mapping[str, Any], key: str, within: timedelta | None = None
    ) -> HttpReply:
        """Send a request and return any answer. `key` lets the receiver recognize a repeated
        request.
        """
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        sender = self._of(receiver).sender
        return await sender.post(headers, json.dumps(body).encode(), within)

    async def close(self) -> None:
        for target in self._known.values():
            await target.sender.close()

    def _of(self, receiver: str) -> "_PendingReply":
        if (target := self._known.get(receiver)) is not None:
            return target
        if receiver in self._others:
            why = f"receiver {receiver} is for people: name one with webhook or cloudEvents"
            raise NotDelivered(why, final=True)
        why = f"receiver {receiver} is not in the receivers file: add it there, or name another"
        raise NotDelivered(why, final=True)


class _PendingReply:
    def __init__(self, settings: Receiver, http: Webhook | CloudEvents, insight_url: str) -> None:
        self.http = http
        self.sender = HttpSender(http, settings.timeout)
        self.texts: NoticeTexts = texts(settings.title, settings.body, insight_url)
