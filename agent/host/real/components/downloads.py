"""Downloads: a tarball by its SHA-256, an OCI artefact by the digest of its manifest.

Nothing received is trusted before its digest has been compared, so plain HTTP is sufficient for
tarballs. A registry is asked without credentials, except for the anonymous token that public
registries require; a registry on this host (localhost) is asked over plain HTTP, as other tools do.
The registry names the host that issues the token. Another host is asked over HTTPS only, because an
agent reaches its cloud's metadata service over HTTP. Source:
github.com/opencontainers/distribution-spec and image-spec, v1.1.
"""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from yarl import URL

from agent.host import Contraindicated, HostError
from agent.host.files import HostRoot

MOST_BYTES = 4 * 1024**3
"""Maximum bytes of an artefact, all its layers together."""
MOST_LAYERS = 64
MOST_MANIFEST_BYTES = 4 * 1024**2
TIMEOUT = aiohttp.ClientTimeout(total=1800, sock_connect=30, sock_read=60)
PART_BYTES = 256 * 1024
INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
TITLE = "org.opencontainers.image.title"
_REF = re.compile(r"([^/@]+)/([^@]+)@sha256:([0-9a-f]{64})")
_LOCAL = re.compile(r"(localhost|127\.[0-9.]+|\[::1\])(:[0-9]+)?")
_BEARER = re.compile(r'(\w+)="([^"]*)"')
_PLAIN_NAME = re.compile(r"[A-Za-z0-9._+-]{1,255}")


@dataclass(frozen=True, slots=True)
class Blob:
    """A downloaded file.

    name: file name; "" for a tar archive that is unpacked
    """

    path: Path
    name: str = ""


class Downloads:
    """Downloader of artefacts.

    architecture: of this host, as OCI names it
    root: where the host's files are mounted
    """

    def __init__(self, architecture: str, root: Path) -> None:
        self._architecture, self._root = architecture, root

    async def tarball(self, url: str, sha256: str, folder: Path) -> list[Blob]:
        """Download into `folder`. Raises HostError; Contraindicated for a wrong digest."""
        path = folder / "tarball"
        if url.startswith("file://"):
            source = HostRoot(str(self._root)).path(url.removeprefix("file://"))
            await asyncio.to_thread(_copied, source, path, sha256)
        else:
            async with _session() as session, _open_url(session, url) as response:
                await _save(response, path, sha256, url)
        return [Blob(path)]

    async def oci(self, ref: str, folder: Path) -> list[Blob]:
        """Download the layers, in order."""
        match = _REF.fullmatch(ref)
        if match is None:
            raise Contraindicated(f"source.oci.ref {ref}: write REGISTRY/REPOSITORY@sha256:DIGEST")
        host, repository, digest = match.groups()
        scheme = "http" if _LOCAL.fullmatch(host) else "https"
        host = "registry-1.docker.io" if host == "docker.io" else host
        async with _session() as session:
            registry = _Registry(session, f"{scheme}://{host}/v2/{repository}", self._architecture)
            return await registry.layers(digest, folder)


class _Registry:
    """One repository of a registry."""

    def __init__(self, session: aiohttp.ClientSession, base: str, architecture: str) -> None:
        self._session, self._base, self._architecture = session, base, architecture
        self._headers = {"Accept": ", ".join((*MANIFESTS, *INDEXES))}

    async def layers(self, digest: str, folder: Path) -> list[Blob]:
        manifest = await self._manifest(digest)
        if "manifests" in manifest:
            manifest = await self._manifest(self._chosen(manifest["manifests"]))
        blobs: list[Blob] = []
        remaining = MOST_BYTES
        layers = manifest.get("layers", ())
        if not isinstance(layers, list) or len(layers) > MOST_LAYERS:
            raise Contraindicated(f"{self._base}@sha256:{digest}: more than {MOST_LAYERS} layers")
        for number, layer in enumerate(layers):
            path, wanted = folder / f"layer-{number}", _hex(str(layer.get("digest", "")))
            url = f"{self._base}/blobs/sha256:{wanted}"
            async with self._get(url) as response:
                remaining -= await _save(response, path, wanted, url, remaining)
            blobs.append(Blob(path, _name_of(layer)))
        if not blobs:
            raise Contraindicated(f"{self._base}@sha256:{digest} has no layers")
        return blobs

    async def _manifest(self, digest: str) -> dict[str, Any]:
        url = f"{self._base}/manifests/sha256:{digest}"
        async with self._get(url) as response:
            text = await response.content.read(MOST_MANIFEST_BYTES + 1)
            while len(text) <= MOST_MANIFEST_BYTES and not response.content.at_eof():
                text += await response.content.read(MOST_MANIFEST_BYTES + 1 - len(text))
        if len(text) > MOST_MANIFEST_BYTES:
            raise Contraindicated(f"{url} is larger than {MOST_MANIFEST_BYTES} bytes")
        _compare(url, hashlib.sha256(text).hexdigest(), digest)
        try:
            read = msgspec.json.decode(text, type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError) as error:
            raise Contraindicated(f"{url} is no manifest: {error}") from error
        return read

    def _chosen(self, manifests: Any) -> str:
        for entry in manifests:
            platform = entry.get("platform", {})
            if (platform.get("os"), platform.get("architecture")) == ("linux", self._architecture):
                return _hex(str(entry.get("digest", "")))
        raise Contraindicated(f"{self._base}: nothing for linux/{self._architecture}")

    @asynccontextmanager
    async def _get(self, url: str) -> AsyncIterator[aiohttp.ClientResponse]:
        """Get the URL, with the registry's anonymous token where it requires one."""
        try:
            async with self._session.get(url, headers=self._headers) as response:
                if response.status != 401:
                    yield _good(response, url)
                    return
                challenge = response.headers.get("WWW-Authenticate", "")
            self._headers["Authorization"] = f"Bearer {await self._token(challenge, url)}"
            async with self._session.get(url, headers=self._headers) as response:
                yield _good(response, url)
        except (aiohttp.ClientError, TimeoutError, ValueError, RecursionError) as error:
            raise HostError(f"{url}: {error or type(error).__name__}") from error

    async def _token(self, challenge: str, url: str) -> str:
        given: Mapping[str, str] = dict(_BEARER.findall(challenge))
        realm = given.get("realm", "")
        if not challenge.lower().startswith("bearer") or not realm.startswith("http"):
            raise HostError(f"{url}: 401 Unauthorized; only anonymous access is possible")
        if URL(realm).scheme != "https" and URL(realm).origin() != URL(url).origin():
            raise HostError(
                f"{url}: its realm {realm} is plain http of another host: it is not asked"
            )
        params = {key: given[key] for key in ("service", "scope") if key in given}
        async with self._session.get(realm, params=params, allow_redirects=False) as response:
            read = msgspec.json.decode(await _good(response, realm).read(), type=dict[str, Any])
        return str(read.get("token") or read.get("access_token", ""))


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(timeout=TIMEOUT, trust_env=True)


@asynccontextmanager
async def _open_url(
    session: aiohttp.ClientSession, url: str
) -> AsyncIterator[aiohttp.ClientResponse]:
    try:
        async with session.get(url) as response:
            yield _good(response, url)
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise HostError(f"{url}: {error or type(error).__name__}") from error


def _good(response: aiohttp.ClientResponse, url: str) -> aiohttp.ClientResponse:
    if response.status != 200:
        raise HostError(f"{url}: {response.status} {response.reason}")
    return response


async def _save(
    response: aiohttp.ClientResponse, path: Path, sha256: str, url: str, most: int = MOST_BYTES
) -> int:
    """Save the body as a file and return its bytes.

    Raises HostError; Contraindicated for a wrong digest, or for more than `most` bytes.
    """
    known, size = hashlib.sha256(), 0
    try:
        with path.open("wb") as file:
            async for part in response.content.iter_chunked(PART_BYTES):
                known.update(part)
                size += len(part)
                if size > most:
                    raise Contraindicated(
                        f"{url} is larger than the {most} bytes that are left of {MOST_BYTES}"
                    )
                await asyncio.to_thread(file.write, part)
    except OSError as error:
        raise HostError(f"{path}: {error.strerror or error}") from error
    _compare(url, known.hexdigest(), sha256)
    return size


def _copied(source: Path, path: Path, sha256: str) -> None:
    known = hashlib.sha256()
    try:
        with source.open("rb") as read, path.open("wb") as file:
            while part := read.read(PART_BYTES):
                known.update(part)
                file.write(part)
    except OSError as error:
        raise HostError(f"{source}: {error.strerror}") from error
    _compare(str(source), known.hexdigest(), sha256)


def _compare(what: str, actual: str, wanted: str) -> None:
    if actual != wanted:
        raise Contraindicated(f"{what} has digest sha256:{actual} instead of sha256:{wanted}")


def _hex(digest: str) -> str:
    kind, _, wanted = digest.partition(":")
    if kind != "sha256" or not re.fullmatch("[0-9a-f]{64}", wanted):
        raise Contraindicated(f"digest {digest!r} is no sha256:...")
    return wanted


def _name_of(layer: Mapping[str, Any]) -> str:
    """Return the file name; "" for an archive. Raises Contraindicated for any other type of
    layer.
    """
    kind = str(layer.get("mediaType", ""))
    if re.search(r"[.+]tar([.+](gzip|zstd))?$", kind):
        return ""
    name = str(layer.get("annotations", {}).get(TITLE, ""))
    if not _PLAIN_NAME.fullmatch(name) or name in (".", ".."):
        raise Contraindicated(
            f"a layer of type {kind or 'unknown'} is no tar archive, and its title {name!r} no file"
            " name"
        )
    return name
