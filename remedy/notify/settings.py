"""Receivers of notifications: the part `receivers` of the file of `--receivers-file`.

A rule names receivers, and this file defines them: authors of rules cannot make KubeNode send to an
address of their choice.
"""

import re
from datetime import timedelta
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import (
    Field,
    StrictBool,
    StrictInt,
    StringConstraints,
    field_validator,
    model_validator,
)

from kubenode.api.base import Model, refusal
from kubenode.api.duration import Duration
from kubenode.api.v1alpha1 import JobPhase
from kubenode.api.v1alpha1.noderemedier import Severity
from remedy.notify.secret import Secret

OPEN_ADDRESSES = frozenset(
    {"mailto", "mailtos", "json", "jsons", "xml", "xmls", "form", "forms", "syslog"}
)
"""Kinds of apprise URLs that hold no secret unless they hold a password."""
SECRET_HEADER = re.compile(r"auth|token|secret|cookie|signature|key", re.IGNORECASE)
NOT_SECRET = frozenset({"idempotency-key"})

Text = Annotated[str, StringConstraints(min_length=1, max_length=8192)]
Url = Annotated[str, StringConstraints(min_length=1, max_length=4096)]

DEFAULT_PHASES = (JobPhase.AWAITING_APPROVAL, JobPhase.NEEDS_HUMAN, JobPhase.FAILED)
"""What people want to hear of unless they say otherwise: what waits for them, and what failed."""


class NotificationRate(Model):
    """At most `count` notifications in any time of `per`; the rest is summed up in one."""

    count: StrictInt = Field(default=10, ge=1, le=10_000)
    per: Duration = timedelta(minutes=5)


class Apprise(Model):
    """Chat, mail, pagers: whatever apprise knows an URL for."""

    urls: list[Url | Secret] = Field(min_length=1, max_length=16)

    @field_validator("urls")
    @classmethod
    def _no_secret_in_the_file(cls, urls: list[str | Secret]) -> list[str | Secret]:
        for number, url in enumerate(urls):
            if isinstance(url, str) and holds_secret(url):
                raise refusal(
                    "holds a secret: put the URL into a file or a variable, and write "
                    "{fromFile: PATH} or {fromEnv: NAME} here",
                    f"{number}",
                )
        return urls


class Http(Model):
    """An address that takes POSTs."""

    url: Url | Secret
    headers: dict[str, Annotated[str, StringConstraints(max_length=1024)] | Secret] = Field(
        default_factory=dict, max_length=16
    )
    ca_file: str | None = Field(default=None, min_length=1, max_length=4096)
    """Who signs its certificate; else whom the system trusts."""

    @field_validator("url")
    @classmethod
    def _http(cls, url: str | Secret) -> str | Secret:
        if isinstance(url, str) and not is_http(url):
            raise refusal("not an address of HTTP: write https://HOST/PATH")
        if isinstance(url, str) and urlsplit(url).password:
            raise refusal("holds a password: write {fromFile: PATH} or {fromEnv: NAME}")
        return url

    @field_validator("headers")
    @classmethod
    def _no_secret_in_the_file(cls, headers: dict[str, str | Secret]) -> dict[str, str | Secret]:
        for name, value in headers.items():
            if not re.fullmatch(r"[A-Za-z0-9-]{1,128}", name):
                raise refusal("no name of a header: letters, digits and dashes", name)
            if isinstance(value, str) and secret_header(name):
                raise refusal("a secret: write {fromFile: PATH} or {fromEnv: NAME}", name)
            if isinstance(value, str) and not value.isprintable():
                raise refusal("holds a line break or a control character: take it out", name)
        return headers


class Webhook(Http):
    """The notification as JSON."""


class CloudEvents(Http):
    """The notification as a CloudEvent, structured mode."""

    source: Annotated[str, StringConstraints(min_length=1, max_length=512)] = "/kubenode"
    """Whose events these are: a URI reference, such as /kubenode/prod-1."""


class Receiver(Model):
    """One of apprise, webhook, cloudEvents says how; the rest says what and when."""

    apprise: Apprise | None = None
    webhook: Webhook | None = None
    cloud_events: CloudEvents | None = None
    on: list[JobPhase] = Field(default_factory=lambda: list(DEFAULT_PHASES), max_length=10)
    """Phases of a job that are told when it enters them."""
    min_severity: Severity = Severity.INFO
    """Jobs of rules that are less severe are not told; steps `notify` and `webhook` always are."""
    all_rules: StrictBool = False
    """Hear of every rule's jobs, not only of those that name this receiver."""
    rate: NotificationRate | None = None
    """Default: 10 in 5m for people (apprise), 600 in 1m for programs."""
    timeout: Duration = timedelta(seconds=10)
    """Of one try."""
    give_up_after: Duration = timedelta(hours=1)
    """A notification that cannot be delivered for so long is given up."""
    title: Text | None = None
    """A template; absent: our own."""
    body: Text | None = None

    @model_validator(mode="after")
    def _check_method(self) -> "Receiver":
        if [self.apprise, self.webhook, self.cloud_events].count(None) != 2:
            raise refusal("not one way of telling: write one of apprise, webhook, cloudEvents")
        return self

    @field_validator("timeout")
    @classmethod
    def _short(cls, timeout: timedelta) -> timedelta:
        if not timedelta(seconds=1) <= timeout <= timedelta(minutes=1):
            raise refusal("not between 1s and 1m: a receiver that is slower is not there")
        return timeout

    @property
    def limit(self) -> NotificationRate:
        if self.rate is not None:
            return self.rate
        people = self.apprise is not None
        return (
            NotificationRate() if people else NotificationRate(count=600, per=timedelta(minutes=1))
        )

    @property
    def http(self) -> Http | None:
        return self.webhook or self.cloud_events


def holds_secret(url: str) -> bool:
    """Whether an apprise URL is, or may be, a secret."""
    scheme, _, _ = url.partition("://")
    try:
        password = urlsplit(url).password
    except ValueError:
        return True
    return scheme.lower() not in OPEN_ADDRESSES or bool(password) or "pass=" in url.lower()


def secret_header(name: str) -> bool:
    return SECRET_HEADER.search(name) is not None and name.lower() not in NOT_SECRET


def is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False
