"""Connects a command to a running Kube Defender, if its address is given."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from defender.client import DefenderUnreachable, HttpPermits
from defender.server.connection import ClientTls
from kubenode.cli.exits import Exit, Refusal

SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class DefenderAddress:
    """Address and credentials of Kube Defender.

    url: several URLs are separated by commas; "" means that only the cluster's objects are read.
    authorities: the file with the authorities that sign its certificate.
    """

    url: str = ""
    token_file: Path | None = None
    authorities: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


NOBODY = DefenderAddress()


@asynccontextmanager
async def asking(address: DefenderAddress) -> AsyncIterator[HttpPermits | None]:
    """Yield a client, None without a URL. Raises Refusal if Kube Defender does not answer."""
    if not address.url:
        yield None
        return
    if not address.url.startswith(("http://", "https://")):
        text = f"--url: {address.url!r} is no address: write http://HOST:PORT or https://HOST:PORT"
        raise Refusal(text, Exit.USAGE)
    for flag, file in (
        ("--token-file", address.token_file),
        ("--ca-file", address.authorities),
        ("--cert-file", address.certificate),
        ("--key-file", address.key),
    ):
        if file is not None and not file.is_file():
            raise Refusal(f"{flag}: {file} is no file: name one that is there", Exit.USAGE)
    tls = ClientTls(address.authorities, address.certificate, address.key)
    client = HttpPermits(
        [url.strip() for url in address.url.split(",")],
        address.token_file,
        timeout=SECONDS,
        tls=tls if address.url.startswith("https://") else None,
    )
    try:
        yield client
    except DefenderUnreachable as error:
        text = f"Kube Defender does not answer: {error}; is --url right, and the token valid?"
        raise Refusal(f"{text} Without --url the cluster's objects are read instead") from error
    finally:
        await client.close()
