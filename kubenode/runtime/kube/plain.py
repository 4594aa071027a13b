"""A Transport of aiohttp alone, for the agent.

Importing the `kubernetes` package costs 1 s of CPU and 48 MB per process, too much on every node.
So this module and its imports use neither that package nor pydantic.
"""

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path

import aiohttp

from kubenode.runtime.kube.transport import (
    READ_BUFFER,
    ApiConnection,
    CredentialsError,
    CredentialsTransport,
    Response,
)


class PlainTransport(CredentialsTransport):
    """Credentials from files, read again after the server answers 401.

    server: `https://HOST:PORT` (`http://` for the embedded API server)
    ca_file: PEM of the server's authority, None for those of the system
    cert_file, key_file: PEM of the client certificate and its key, None for none
    token_file: bearer token, as of a service account, None for none
    """

    def __init__(
        self,
        server: str,
        ca_file: str | None = None,
        cert_file: str | None = None,
        key_file: str | None = None,
        token_file: str | None = None,
        *,
        user_agent: str = "kubenode",
    ) -> None:
        super().__init__()
        if bool(cert_file) != bool(key_file):
            raise ValueError("a client certificate and its key go together: give both or neither")
        if not server.startswith(("http://", "https://")):
            raise ValueError(f"server {server!r}: give it as https://HOST:PORT")
        self._server = server
        self._ca_file, self._cert_file, self._key_file = ca_file, cert_file, key_file
        self._token_file = token_file
        self._user_agent = user_agent

    async def connect(self) -> ApiConnection:
        context, credentials = await asyncio.to_thread(self._read)
        connector = aiohttp.TCPConnector(ssl=True if context is None else context)
        session = aiohttp.ClientSession(
            connector=connector,
            response_class=Response,
            read_bufsize=READ_BUFFER,
            headers={"User-Agent": self._user_agent},
        )

        async def headers() -> Mapping[str, str]:
            return credentials

        return ApiConnection(self._server, session, headers)

    def _read(self) -> tuple[ssl.SSLContext | None, dict[str, str]]:
        """Read the credentials. Blocks on files and OpenSSL."""
        credentials = {}
        if self._token_file:
            credentials["Authorization"] = f"Bearer {_token(self._token_file)}"
        if not self._server.startswith("https://"):
            return None, credentials
        for path in filter(None, (self._ca_file, self._cert_file, self._key_file)):
            if not Path(path).is_file():
                raise CredentialsError(f"{path}: no such file; it is named as a TLS credential")
        try:
            context = ssl.create_default_context(cafile=self._ca_file)
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # see official._connection
            if self._cert_file:
                context.load_cert_chain(self._cert_file, self._key_file)
        except (OSError, ssl.SSLError) as error:
            files = ", ".join(filter(None, (self._ca_file, self._cert_file, self._key_file)))
            raise CredentialsError(f"TLS credentials {files}: {error}") from error
        return context, credentials


def _token(path: str) -> str:
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CredentialsError(f"token file {path}: {error}") from error
    if not token:
        raise CredentialsError(f"token file {path} is empty; write a bearer token into it")
    return token
