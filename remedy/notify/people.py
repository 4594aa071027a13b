"""Sends notifications to people through apprise: chats, mail, pagers.

apprise blocks. Each call runs in a thread of a small pool, its sockets have timeouts, and a
receiver with a hanging call is not called again: it occupies at most one thread.
"""

import asyncio
import logging
import re
import warnings
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from threading import get_ident

import apprise

from kubenode.api.v1alpha1 import JobPhase
from kubenode.api.v1alpha1.noderemedier import Severity
from remedy.notify.message import NotDelivered, RenderedNotice
from remedy.notify.secret import Secret, SecretUnreadable, read

REMEMBERED = 64
"""Most messages for which the addresses that accepted them are remembered."""
KINDS = {
    Severity.CRITICAL: apprise.NotifyType.FAILURE,
    Severity.WARNING: apprise.NotifyType.WARNING,
    Severity.INFO: apprise.NotifyType.INFO,
}


class _StatusCodeHandler(logging.Handler):
    """Reads apprise's log lines about the call of this thread. They may hold secrets: only the
    status code of a response is kept.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.codes: dict[int, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        match = re.search(r"error=(\d{3})", record.getMessage())
        if match is not None:
            self.codes[get_ident()] = match.group(1)


_status_codes = _StatusCodeHandler()


def load() -> None:
    """Load apprise's plugins, which takes a second, and keep its log lines, with addresses and
    payloads, out of our logs. A second call does nothing.
    """
    logger = logging.getLogger("apprise")
    logger.propagate = False
    if _status_codes in logger.handlers:
        return
    logger.addHandler(_status_codes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of unused plugins
        apprise.Apprise.instantiate("json://localhost", suppress_exceptions=True)


@dataclass(slots=True)
class _Calls:
    """State of one sender.

    running: the call that may still hang
    taken: addresses that accepted a message, by message ID, oldest first
    """

    running: Future[str] | None = None
    taken: dict[str, set[int]] = field(default_factory=dict)


class AppriseSender:
    """Several addresses are one receiver: a message is delivered when each has it, and is sent to
    each once.
    """

    def __init__(
        self, urls: Sequence[str | Secret], timeout: timedelta, threads: ThreadPoolExecutor
    ) -> None:
        self._urls, self._timeout, self._threads = tuple(urls), timeout.total_seconds(), threads
        self._calls = _Calls()
        load()

    async def send(self, message: RenderedNotice) -> None:
        taken = self._calls.taken.setdefault(message.notice.id, set())
        while len(self._calls.taken) > REMEMBERED:
            del self._calls.taken[next(iter(self._calls.taken))]
        whys: list[NotDelivered] = []
        for number, url in enumerate(self._urls):
            if number in taken:
                continue
            try:
                await self._send_to(url, message)
                taken.add(number)
            except NotDelivered as error:
                whys.append(error)
        if whys:
            raise NotDelivered(
                "; ".join(dict.fromkeys(map(str, whys))), final=all(w.final for w in whys)
            )
        self._calls.taken.pop(message.notice.id, None)

    async def _send_to(self, url: str | Secret, message: RenderedNotice) -> None:
        running = self._calls.running
        if running is not None and not running.done():
            raise NotDelivered("the call before still hangs")
        try:
            target = instantiated(read(url), self._timeout)
        except SecretUnreadable as error:
            raise NotDelivered(str(error)) from error
        call = self._calls.running = self._threads.submit(_notify, target, message)
        try:
            async with asyncio.timeout(self._timeout * 2):
                why = await asyncio.wrap_future(call)
        except TimeoutError as error:
            raise NotDelivered(f"no answer within {self._timeout * 2:g} s") from error
        if why:
            raise NotDelivered(f"{target.service_name or 'it'} {why}")

    async def close(self) -> None:
        """Do nothing: the creator of the thread pool closes it."""


def instantiated(url: str, timeout: float) -> apprise.NotifyBase:
    """Return apprise's plugin for the URL. Raises SecretUnreadable if apprise does not know it."""
    load()
    target = apprise.Apprise.instantiate(url, suppress_exceptions=True)
    if not isinstance(target, apprise.NotifyBase):
        raise SecretUnreadable("not an URL that apprise knows: see its list of services")
    target.socket_connect_timeout = target.socket_read_timeout = timeout
    return target


def _notify(target: apprise.NotifyBase, message: RenderedNotice) -> str:
    """Send in a thread; return why the message was not accepted, "" if it was."""
    _status_codes.codes.pop(get_ident(), None)
    try:
        taken = target.notify(
            body=message.body,
            title=message.title,
            notify_type=kind_of(message),
            body_format=apprise.NotifyFormat.TEXT,
        )
    except Exception as error:  # noqa: BLE001  a hundred plugins: each may raise anything
        return f"failed: {type(error).__name__}"
    if taken:
        return ""
    answer = _status_codes.codes.pop(get_ident(), "")
    return f"answered {answer}" if answer else "did not take it"


def kind_of(message: RenderedNotice) -> apprise.NotifyType:
    if message.notice.kind == JobPhase.SUCCEEDED:
        return apprise.NotifyType.SUCCESS
    return KINDS[message.notice.severity]
