"""Notifications to programs: a POST of JSON, or of a CloudEvent in structured mode.

Taken is what 2xx answers. What a later try may cure (no connection, 408, 425, 429, 5xx) is tried
again by whoever asked, with the same id in the header Idempotency-Key; redirects are not followed,
for they would lead secrets to where nobody allowed.
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
TYPE = "io.kubenode.job"
"""Start of the type of our CloudEvents."""
AGENT = "kubenode-remedy"
LONGEST_ANSWER = 4096
"""Bytes of an answer that are read."""


@dataclass(frozen=True, slots=True)
class HttpReply:
    """`text` is what came with the answer, cut."""

    status: int
    text: str

    @property
    def taken(self) -> bool:
        return 200 <= self.status < 300

    def check(self) -> None:
        """Raises NotDelivered unless it was taken."""
        if not self.taken:
            final = 300 <= self.status < 500 and self.status not in AGAIN
            raise NotDelivered(f"it answered {self.status}", final=final)


class HttpSender:
    """Sends to one address over connections of its own. Raises NotDelivered and nothing else."""

    def __init__(self, settings: Webhook | CloudEvents, timeout: timedelta) -> None:
        self._settings, self._timeout = settings, timeout
        self._session: aiohttp.ClientSession | None = None

    async def send(self, message: RenderedNotice) -> None:
        headers, body = encoded(message, self._settings)
        (await self.post(headers, body)).check()

    async def post(
        self, headers: Mapping[str, str], body: bytes, within: timedelta | None = None
    ) -> HttpReply:
        """Any answer is one. `within` None: the receiver's own. Raises LeaseLost too, before it
        sends anything of one who led.
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
    """Raises Unreadable."""
    url = read(settings.url)
    if not is_http(url):
        raise SecretUnreadable("the URL is no address of HTTP: write https://HOST/PATH")
    return url


def encoded(
    message: RenderedNotice, settings: Webhook | CloudEvents
) -> tuple[dict[str, str], bytes]:
    """Headers and body."""
    notice = message.notice
    told = {
        **notice.to_dict(),
        "title": message.title,
        "text": message.body,
        **({"cluster": message.cluster} if message.cluster else {}),
    }
    key = {"Idempotency-Key": notice.id}
    if isinstance(settings, Webhook):
        return {**key, "Content-Type": "application/json"}, json.dumps(told).encode()
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
        told,
    )
    made = to_structured_event(event)
    return {**key, **made.headers}, made.body


def event_type(kind: str) -> str:
    """Such as io.kubenode.job.needshuman; of a step io.kubenode.job.step."""
    if kind == SUPPRESSED:
        return "io.kubenode.notifications.suppressed"
    return f"{TYPE}.{'step' if kind == STEP else kind.lower()}"


def _given(settings: Http) -> Mapping[str, str]:
    """Raises Unreadable."""
    return {name: read(value) for name, value in settings.headers.items()}


def _why(error: Exception) -> str:
    """The library's words could hold the address, and the address a secret: its kind alone."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    told = getattr(cause, "strerror", None)
    return told if isinstance(told, str) and told and "//" not in told else type(cause).__name__
