"""Sends notifications to programs: a POST of JSON, or of a CloudEvent in structured mode.

A 2xx response means accepted. The caller retries what a later try may fix (no connection, 408, 425,
429, 5xx), with the same ID in the header Idempotency-Key. Redirects are not followed, since they
could send secrets to an address that is not allowed.
"""

import asyncio
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import aiohttp
from cloudevents.core.bindings.http import to_structured_event
from cloudevents.core.v1.event import CloudEvent

from kubenode.runtime.fence import write_seconds
from remedy.notify.message import NotDelivered, RenderedNotice
from remedy.notify.notice import STEP, SUPPRESSED
from remedy.notify.secret import SecretUnreadable, read
from remedy.notify.settings import CloudEvents, Http, Webhook, is_http

AGAIN = frozenset({408, 425, 429})
"""Status codes below 500 that a later try may fix."""
TYPE = "io.kubenode.job"
"""Prefix of the types of our CloudEvents."""
AGENT = "kubenode-remedy"
LONGEST_ANSWER = 4096
"""Bytes of a response that are read."""


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A response. `text` is its body, cut."""

    status: int
    text: str

    @property
    def taken(self) -> bool:
        return 200 <= self.status < 300

    def check(self) -> None:
        """Raise NotDelivered unless the request was accepted."""
        if not self.taken:
            final = 300 <= self.status < 500 and self.status not in AGAIN
            raise NotDelivered(f"it answered {self.status}", final=final)


class HttpSender:
    """Sends to one address over its own connections. `send` raises only NotDelivered."""

    def __init__(self, settings: Webhook | CloudEvents, timeout: timedelta) -> None:
        self._settings, self._timeout = settings, timeout
        self._session: aiohttp.ClientSession | None = None

    async def send(self, message: RenderedNotice) -> None:
        headers, body = encoded(message, self._settings)
        (await self.post(headers, body)).check()

    async def post(
        self, headers: Mapping[str, str], body: bytes, within: timedelta | None = None
    ) -> HttpReply:
        """Send the request and return any response. `within` None: the receiver's own timeout. Also
        raises LeaseLost, before it sends, in a process that has lost its lease.
        """
        write_seconds(None)
        seconds = (within or self._timeout).total_seconds()
        try:
            async with asyncio.timeout(seconds):
                return await self._post({**headers, **_given(self._settings)}, body)
        except SecretUnreadable as error:
            raise NotDelivered(str(error)) from error
        except TimeoutError as error:
            raise NotDelivered(f"no answer within {seconds:g} s") from error
        except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError) as error:
            raise NotDelivered(f"not reachable: {_why(error)}") from error

    async def _post(self, headers: Mapping[str, str], body: bytes) -> HttpReply:
        async with self._connected().post(
            address(self._settings), data=body, headers=headers, allow_redirects=False
        ) as answer:
            raw = await answer.content.read(LONGEST_ANSWER)
            return HttpReply(answer.status, raw.decode(errors="replace"))

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _connected(self) -> aiohttp.ClientSession:
        if self._session is None:
            ca = self._settings.ca_file
            context = ssl.create_default_context(cafile=ca) if ca is not None else True
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=context, limit=4),
                headers={"User-Agent": AGENT},
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session


def address(settings: Http) -> str:
    """Return the URL. Raises SecretUnreadable."""
    url = read(settings.url)
    if not is_http(url):
        raise SecretUnreadable("the URL is no address of HTTP: write https://HOST/PATH")
    return url


def encoded(
    message: RenderedNotice, settings: Webhook | CloudEvents
) -> tuple[dict[str, str], bytes]:
    """Return headers and body of the request."""
    notice = message.notice
    data = {
        **notice.to_dict(),
        "title": message.title,
        "text": message.body,
        **({"cluster": message.cluster} if message.cluster else {}),
    }
    key = {"Idempotency-Key": notice.id}
    if isinstance(settings, Webhook):
        return {**key, "Content-Type": "application/json"}, json.dumps(data).encode()
    event = CloudEvent(
        {
            "id": notice.id,
            "source": settings.source,
            "type": event_type(notice.kind),
            "specversion": "1.0",
            "time": notice.at,
            "datacontenttype": "application/json",
            **({"subject": notice.node} if notice.node and notice.kind != SUPPRESSED else {}),
        },
        data,
    )
    made = to_structured_event(event)
    return {**key, **made.headers}, made.body


def event_type(kind: str) -> str:
    """Return the type, such as io.kubenode.job.needshuman; for a step io.kubenode.job.step."""
    if kind == SUPPRESSED:
        return "io.kubenode.notifications.suppressed"
    return f"{TYPE}.{'step' if kind == STEP else kind.lower()}"


def _given(settings: Http) -> Mapping[str, str]:
    """Return the configured headers. Raises SecretUnreadable."""
    return {name: read(value) for name, value in settings.headers.items()}


def _why(error: Exception) -> str:
    """Return the kind of the error only: the library's text may contain the address, which may be
    secret.
    """
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    reason = getattr(cause, "strerror", None)
    return (
        reason
        if isinstance(reason, str) and reason and "//" not in reason
        else type(cause).__name__
    )
