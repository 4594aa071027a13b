"""A Transport to one member, from credentials in memory.

A member may be hostile or broken: an answer is bounded in size, redirects are not followed, and
compressed answers are not unpacked, as Captain does not request them.
"""

import asyncio
import os
import ssl
from collections.abc import Mapping

import aiohttp

from captain.members.kubeconfig import KubeconfigProblem, MemberCredentials
from kubenode.runtime.kube.transport import (
    ApiConnection,
    CredentialsError,
    CredentialsTransport,
    Response,
)

MAX_ANSWER_BYTES = 4 * 2**20
"""Above the limit of etcd for one object, 1.5 MiB."""
CONNECTIONS = 4
"""Connections to one member. Most of the time one is open."""
KEEPALIVE_SECONDS = 90.0
"""Longer than the interval of probes, so that a probe needs no new TLS handshake."""
USER_AGENT = "kubenode-captain"


class BoundedResponse(Response):
    """A response whose body may have at most MAX_ANSWER_BYTES."""

    async def read(self) -> bytes:
        parts, size = list[bytes](), 0
        async for part in self.content.iter_any():
            size += len(part)
            if size > MAX_ANSWER_BYTES:
                self.close()
                text = f"the answer has more than {MAX_ANSWER_BYTES} bytes"
                raise aiohttp.ClientPayloadError(text)
            parts.append(part)
        return b"".join(parts)


class MemberTransport(CredentialsTransport):
    """A Transport with the credentials of a member. New credentials need a new Transport."""

    def __init__(self, credentials: MemberCredentials) -> None:
        super().__init__()
        self._credentials = credentials
        self._context = build_context(credentials)

    async def connect(self) -> ApiConnection:
        given = {"User-Agent": USER_AGENT}
        if self._credentials.token:
            given["Authorization"] = f"Bearer {self._credentials.token}"
        connector = aiohttp.TCPConnector(
            ssl=self._context, limit=CONNECTIONS, keepalive_timeout=KEEPALIVE_SECONDS
        )
        session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            response_class=BoundedResponse,
            auto_decompress=False,
        )

        async def headers() -> Mapping[str, str]:
            return given

        name = self._credentials.server_name
        options = {"server_hostname": name} if name else None
        return ApiConnection(self._credentials.server, session, headers, options)

    async def reload(self, generation: int) -> None:
        """Raise: the credentials are in memory, and a second try with them cannot help."""
        await asyncio.sleep(0)
        raise CredentialsError("the member refuses the credentials of its kubeconfig")


def build_context(credentials: MemberCredentials) -> ssl.SSLContext:
    """Build the TLS of a client. Raises KubeconfigProblem for unusable certificates."""
    try:
        context = ssl.create_default_context(cadata=credentials.authority or None)
    except (ssl.SSLError, ValueError) as error:
        field, problem = "certificate-authority-data", f"is no certificate: {_reason(error)}"
        raise KubeconfigProblem(field, problem, "copy it again") from None
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # clusters have authorities without key ids
    if credentials.certificate:
        _load_identity(context, credentials)
    return context


def _load_identity(context: ssl.SSLContext, credentials: MemberCredentials) -> None:
    """Load the client certificate. OpenSSL reads it from an anonymous file in memory."""
    file = os.memfd_create("member-certificate")
    try:
        os.write(file, credentials.certificate + b"\n" + credentials.key)
        context.load_cert_chain(f"/proc/self/fd/{file}", password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        field, problem = "client-certificate-data", f"is no certificate with its key: {error}"
        raise KubeconfigProblem(field, problem, "copy both again") from None
    finally:
        os.close(file)


def _no_password() -> bytes:
    """Refuse encrypted keys. Without this OpenSSL would ask at the terminal and block."""
    raise ValueError("the key is encrypted")


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or str(error)
