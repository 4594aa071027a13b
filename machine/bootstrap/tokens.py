"""Bootstrap tokens at the API server: Secrets in kube-system, each bound to a Machine by its UID.

The Machine owns the Secret, so the garbage collector revokes the token with the Machine, even if no
operator runs. kube-apiserver authenticates by this form.
Source: kubernetes.io, Authenticating with Bootstrap Tokens.
"""

import base64
import secrets
import string
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from kubenode.api.v1alpha1 import Machine
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists, NotFound
from kubenode.runtime.kube.objects import KubeObjectMeta, structs
from kubenode.runtime.kube.paths import resource
from machine.certificates.case import BootstrapToken
from machine.names import (
    MACHINE,
    MACHINE_UID,
    TOKEN_GROUP,
    TOKEN_NAMESPACE,
    TOKEN_TYPE,
    secret_name,
)

ALPHABET = string.ascii_lowercase + string.digits
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
ID_LENGTH, SECRET_LENGTH = 6, 16


class _TokenSecret(msgspec.Struct, gc=False):
    metadata: KubeObjectMeta
    data: dict[str, bytes] = {}


_decode = structs(_TokenSecret)


@dataclass(frozen=True, slots=True)
class StoredToken:
    """A token as it is stored. `text` is the secret that an agent presents; it is never logged."""

    token: BootstrapToken
    uid: str
    resource_version: str
    text: str = ""

    def __repr__(self) -> str:
        return f"Kept({self.token.id})"


def new_id() -> str:
    return _random(ID_LENGTH)


class Tokens:
    """Access to bootstrap tokens."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    async def read(self, token_id: str) -> StoredToken | None:
        """Return the token, None if there is no such Secret."""
        try:
            stored_secret = await self._kube.get(_path(token_id), _decode)
        except NotFound:
            return None
        annotations, data = stored_secret.metadata.annotations, stored_secret.data
        token = BootstrapToken(
            token_id,
            annotations.get(MACHINE, ""),
            annotations.get(MACHINE_UID, ""),
            _time(data.get("expiration", b"")),
        )
        text = f"{token_id}.{data.get('token-secret', b'').decode(errors='replace')}"
        return StoredToken(
            token, stored_secret.metadata.uid, stored_secret.metadata.resource_version, text
        )

    async def make(self, token_id: str, machine: Machine, until: datetime) -> bool:
        """Create the token. Return False if the Secret exists already, ours or not."""
        try:
            await self._kube.create(_collection(), secret(token_id, machine, until))
        except AlreadyExists:
            return False
        return True

    async def extend(self, stored: StoredToken, until: datetime) -> None:
        """Change the expiry, to a later or earlier time. Raises Conflict if the Secret has
        changed.
        """
        body = {
            "metadata": {"uid": stored.uid, "resourceVersion": stored.resource_version},
            "data": {"expiration": _coded(_stamp(until))},
        }
        await self._kube.patch(_path(stored.token.id), body)

    async def revoke(self, stored: StoredToken) -> None:
        """Delete the token. One that is gone already is no error."""
        try:
            await self._kube.delete(_path(stored.token.id), uid=stored.uid)
        except NotFound:
            return


def secret(token_id: str, machine: Machine, until: datetime) -> Mapping[str, Any]:
    """Return a new Secret with a random token secret."""
    meta = machine.metadata
    data = {
        "token-id": token_id,
        "token-secret": _random(SECRET_LENGTH),
        "expiration": _stamp(until),
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": TOKEN_GROUP,
        "description": f"first certificate of the agent of Machine {meta.name}",
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": TOKEN_TYPE,
        "metadata": {
            "name": secret_name(token_id),
            "namespace": TOKEN_NAMESPACE,
            "annotations": {MACHINE: meta.name, MACHINE_UID: meta.uid},
            "ownerReferences": [
                {
                    "apiVersion": machine.api_version,
                    "kind": machine.kind,
                    "name": meta.name,
                    "uid": meta.uid,
                }
            ],
        },
        "data": {name: _coded(value) for name, value in data.items()},
    }


def _collection() -> str:
    return resource("/api/v1", "secrets", namespace=TOKEN_NAMESPACE)


def _path(token_id: str) -> str:
    return resource("/api/v1", "secrets", namespace=TOKEN_NAMESPACE, name=secret_name(token_id))


def _random(length: int) -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(length))


def _coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _stamp(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _time(raw: bytes) -> datetime:
    """Return the time; one in the past if it is unreadable."""
    try:
        parsed = datetime.fromisoformat(raw.decode())
    except ValueError:
        return LONG_AGO
    return parsed if parsed.tzinfo is not None else LONG_AGO
