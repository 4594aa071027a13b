"""Connection to a Redis: URL, password and certificates, with short timeouts and without retries.

    redis://HOST:PORT/DB                   rediss:// with TLS, unix:///PATH for a socket
    redis+sentinel://HOST:PORT,HOST:PORT/MASTER/DB       rediss+sentinel:// with TLS

By default redis-py retries for seconds, but a request for a permit must learn at once that the
state is unknown. The password is read for each connection, so that it can be rotated.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.credentials import CredentialProvider

SECONDS = 0.3
"""Timeout of a request in seconds. A slower Redis counts as away."""
CONNECTIONS = 32
SENTINEL_PORT, REDIS_PORT = 26379, 6379
PLAIN, SENTINEL = ("redis", "rediss", "unix"), ("redis+sentinel", "rediss+sentinel")


class BadUrl(ValueError):
    """The URL is invalid. The message says why, and what is valid."""


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """Address of a Redis, as configured.

    password_file: None for no password.
    ca_file: None for the authorities that the system trusts.
    seconds: timeout of a request.
    """

    url: str
    password_file: str | Path | None = None
    ca_file: str | Path | None = None
    seconds: float = SECONDS


class PasswordFile(CredentialProvider):
    """Password that is read from a file for each connection. Raises OSError if that fails."""

    def __init__(self, file: str | Path, user: str = "") -> None:
        self._file, self._user = Path(file), user

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        password = self._file.read_text().strip()
        return (self._user, password) if self._user else (password,)


def connect(address: RedisAddress) -> "Redis":
    """Return a client, which connects on the first request. Raises BadUrl."""
    url = parsed(address.url)
    options = _options(address, url)
    if url.scheme in SENTINEL:
        return _by_sentinel(url, options)
    if url.scheme == "unix":
        options["path"] = url.path
        pool = BlockingConnectionPool(connection_class=_unix(), **_pooled(address), **options)
    else:
        options |= {"host": url.hostname, "port": url.port or REDIS_PORT}
        pool = BlockingConnectionPool(
            connection_class=_tcp(url.scheme), **_pooled(address), **options
        )
    return Redis.from_pool(pool)


def parsed(url: str) -> SplitResult:
    """Return the parsed URL. Raises BadUrl."""
    parts = _split(url)
    if parts.scheme not in PLAIN + SENTINEL:
        known = ", ".join(f"{scheme}://" for scheme in PLAIN + SENTINEL)
        raise BadUrl(f"{_safe(parts)!r} is no address of a Redis: begin with one of {known}")
    if parts.password:
        raise BadUrl(
            "a password in the URL shows in process lists: put it into a file, and name it"
        )
    if parts.scheme == "unix":
        if not parts.path:
            raise BadUrl("unix:// needs the path of a socket, such as unix:///run/redis/redis.sock")
        return parts
    if not parts.netloc.rpartition("@")[2]:
        raise BadUrl(f"{_safe(parts)!r} names no host: write {parts.scheme}://HOST:PORT")
    if parts.scheme in SENTINEL and not _path(parts)[0]:
        raise BadUrl(f"{_safe(parts)!r} names no master: end it with /MASTER, as Sentinel calls it")
    try:
        _database(parts)
        _hosts(parts) if parts.scheme in SENTINEL else parts.port
    except ValueError as error:
        raise BadUrl(f"{_safe(parts)!r}: {error}") from error
    return parts


def _split(url: str) -> SplitResult:
    """Split the URL. `urlsplit` rejects a list of hosts with IPv6 addresses, as Sentinel needs."""
    scheme, _, rest = url.partition("://")
    try:
        if scheme not in SENTINEL:
            return urlsplit(url)
        hosts, _, path = rest.partition("/")
        return urlsplit(f"{scheme}:///{path}")._replace(netloc=hosts)
    except ValueError as error:
        raise BadUrl(f"this is no address of a Redis: {error}") from error


def _safe(parts: SplitResult) -> str:
    """Return the URL without anything that may be a password."""
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def _path(parts: SplitResult) -> list[str]:
    return parts.path.removeprefix("/").split("/")


def _database(parts: SplitResult) -> int:
    path = _path(parts)
    number = (path[1] if len(path) > 1 else "") if parts.scheme in SENTINEL else path[0]
    if number and not number.isdigit():
        raise ValueError(f"{number!r} is no number of a database: write 0 or leave it out")
    return int(number or 0)


def _hosts(parts: SplitResult) -> list[tuple[str, int]]:
    hosts = []
    for each in parts.netloc.rpartition("@")[2].split(","):
        host, _, port = each.rpartition(":") if ":" in each else (each, "", "")
        if not host or (port and not port.isdigit()):
            raise ValueError(f"{each!r} is no HOST:PORT of a Sentinel")
        hosts.append((host.strip("[]"), int(port or SENTINEL_PORT)))
    return hosts


def _options(address: RedisAddress, url: SplitResult) -> dict[str, Any]:
    options: dict[str, Any] = {
        "socket_timeout": address.seconds,
        "socket_connect_timeout": address.seconds,
        "retry": None,
        "decode_responses": True,
        "client_name": "kube-defender",
    }
    if url.scheme != "unix":
        options["db"] = _database(url)
    if address.password_file is not None:
        provider = PasswordFile(address.password_file, unquote(url.username or ""))
        options["credential_provider"] = provider
    if url.scheme.startswith("rediss") and address.ca_file is not None:
        options["ssl_ca_certs"] = str(address.ca_file)
    return options


def _pooled(address: RedisAddress) -> dict[str, Any]:
    return {"max_connections": CONNECTIONS, "timeout": address.seconds}


def _tcp(scheme: str) -> Any:
    from redis.asyncio import Connection, SSLConnection

    return SSLConnection if scheme == "rediss" else Connection


def _unix() -> Any:
    from redis.asyncio import UnixDomainSocketConnection

    return UnixDomainSocketConnection


class _WithItsSentinels(SentinelConnectionPool):
    """Connection pool that also closes the connections to the Sentinels, which redis-py leaves
    open.
    """

    async def aclose(self) -> None:
        await super().aclose()
        await self.sentinel_manager.aclose()


def _by_sentinel(url: SplitResult, options: dict[str, Any]) -> "Redis":
    tls = {"ssl": True} if url.scheme == "rediss+sentinel" else {}
    short = {"socket_timeout", "socket_connect_timeout", "retry", "decode_responses"}
    sentinel_options = {key: value for key, value in options.items() if key in short} | tls
    if "ssl_ca_certs" in options:
        sentinel_options["ssl_ca_certs"] = options["ssl_ca_certs"]
    sentinel: Any = Sentinel(  # type: ignore[no-untyped-call]
        _hosts(url), sentinel_kwargs=sentinel_options, **options, **tls
    )
    client: Redis = sentinel.master_for(_path(url)[0], connection_pool_class=_WithItsSentinels)
    return client
