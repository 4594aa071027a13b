"""The server of a site for people, and its settings."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from starlette.applications import Starlette

from kubenode.runtime.kube.configmaps import NAMESPACE
from kubenode.runtime.serverlimits import DEFAULT, HttpLimits
from kubenode.runtime.site.people import Proxy
from kubenode.runtime.tls.context import LiveContext
from kubenode.runtime.webserver import WebServer

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SiteSettings:
    """Settings of a site.

    address, port: where people reach it. Port 0 takes a free one.
    key_file: file with the key of cookies, shared by replicas. None: a key of this process.
    link: part of an address that gives its bearer all rights, "" for none.
    context: TLS context, None for plain HTTP.
    flag: name of the port in errors.
    namespace: namespace of the leaders' Leases, where replicas with a shared key exchange logouts.
    """

    address: str = "127.0.0.1"
    port: int = 0
    key_file: str | Path | None = None
    proxy: Proxy = field(default_factory=Proxy)
    link: str = field(default="", repr=False)
    context: LiveContext | None = None
    flag: str = "--dashboard-port"
    namespace: str = NAMESPACE
    limits: HttpLimits = DEFAULT

    def build_url(self, port: int) -> str:
        """Return the address for people, with the link if there is one."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        link = f"login?link={self.link}" if self.link else ""
        scheme = "http" if self.context is None else "https"
        return f"{scheme}://{host}:{port}/{link}"


class SiteServer(WebServer):
    """A part. `context` None: plain HTTP, for loopback and behind a proxy with TLS."""

    name = "dashboard server"

    def __init__(self, app: Starlette, settings: SiteSettings, leaving: Callable[[], None]) -> None:
        self._how = "plain" if settings.context is None else "TLS"
        super().__init__(
            app,
            address=settings.address,
            port=settings.port,
            flag=settings.flag,
            context=settings.context,
            limits=settings.limits,
            leaving=leaving,
        )

    def announce(self) -> None:
        where = {"address": self.address, "port": self.port, "how": self._how}
        log.info("dashboard listens", extra=where)
