"""Addresses of BMCs: parsing, and the check against the permitted networks and domains."""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from kubenode.providers.settings import network

SYSTEMS = "/redfish/v1/Systems/"
_SYSTEM = re.compile(re.escape(SYSTEMS) + r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}")
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?|[0-9a-f:.]{2,45}")


class BadBmc(ValueError):
    """An address of a BMC that cannot be used. The text says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Bmc:
    """Address of a BMC.

    url: https://HOST[:PORT]
    host: name or IP address without brackets
    system: path of the ComputerSystem; "" means the only one
    """

    url: str
    host: str
    system: str = ""


def parse(text: str) -> Bmc:
    """Parse HOST, or https://HOST[:PORT] with or without the path of a system. Raises BadBmc."""
    whole = text if "://" in text else f"https://{text}"
    try:
        parts = urlsplit(whole)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise BadBmc(f"{text!r} is no address: {error}") from error
    if parts.scheme != "https" or not host or parts.username or parts.query or parts.fragment:
        raise BadBmc(f"{text!r} is no address: write HOST or https://HOST[:PORT][{SYSTEMS}ID]")
    if not _HOST.fullmatch(host):
        raise BadBmc(f"{text!r} is no address: {host!r} is no name and no IP address")
    path = parts.path.rstrip("/")
    if path and not _SYSTEM.fullmatch(path):
        raise BadBmc(f"{text!r} has the path {path}: write {SYSTEMS}ID or none")
    bracketed = f"[{host}]" if ":" in host else host
    return Bmc(f"https://{bracketed}{f':{port}' if port else ''}", host, path)


def inside(host: str, places: Iterable[str]) -> bool:
    """Return whether `host` is in one of the networks, or equal to or below one of the domains."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        name = host.lower().rstrip(".")
        return any(
            name == place or name.endswith(f".{place}") for place in places if not network(place)
        )
    networks = (network(place) for place in places)
    return any(address in net for net in networks if net is not None)
