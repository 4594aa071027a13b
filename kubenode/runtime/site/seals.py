"""Sealed cookies, and tokens against forged posts.

Cookies use AES-256-GCM with their purpose as associated data, so one cookie cannot stand for
another. The key is made at start, or read from a file that all replicas share, so that a login
survives the end of a replica.
"""

import base64
import binascii
import hmac
import json
import secrets
import zlib
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from kubenode.runtime.process import CannotStart

KEY_BYTES = 32
NONCE = 12
LONGEST = 3800
"""Greatest length of a cookie in characters. Browsers drop one of more than 4096 bytes with its
name and attributes.
"""
MOST_BYTES = 2**16


class CookieTooLong(Exception):
    """The content does not fit a cookie."""


class Seal:
    def __init__(self, key: bytes | None = None) -> None:
        key = key or secrets.token_bytes(KEY_BYTES)
        self._aead = AESGCM(_derived(key, b"cookies"))
        self._forms = _derived(key, b"forms")

    def close(self, purpose: str, content: dict[str, Any], until: datetime) -> str:
        """Return the sealed content, valid until `until`. Raises CookieTooLong."""
        plain = zlib.compress(json.dumps([until.timestamp(), content]).encode(), 9)
        nonce = secrets.token_bytes(NONCE)
        sealed = nonce + self._aead.encrypt(nonce, plain, purpose.encode())
        text = base64.urlsafe_b64encode(sealed).decode()
        if len(text) > LONGEST:
            raise CookieTooLong(f"{len(text)} characters")
        return text

    def open(self, purpose: str, text: str, now: datetime) -> dict[str, Any] | None:
        """Return the content, None if it was not sealed for this purpose or has expired."""
        if not text or len(text) > LONGEST:
            return None
        try:
            raw = base64.urlsafe_b64decode(text.encode())
            plain = self._aead.decrypt(raw[:NONCE], raw[NONCE:], purpose.encode())
        except (InvalidTag, ValueError, binascii.Error):
            return None
        until, content = json.loads(zlib.decompressobj().decompress(plain, MOST_BYTES))
        return dict(content) if now.timestamp() < until else None

    def form_token(self, session: str) -> str:
        """Return the token for all forms of `session`, which cannot be guessed."""
        return hmac.new(self._forms, session.encode(), sha256).hexdigest()

    def form_token_fits(self, session: str, shown: str) -> bool:
        return hmac.compare_digest(self.form_token(session).encode(), shown.encode())


def _derived(key: bytes, purpose: bytes) -> bytes:
    return hmac.new(key, b"kubenode dashboard " + purpose, sha256).digest()


def seal_from(file: str | Path | None) -> Seal:
    """Return a seal with the key in `file`, or with a key of this process. Raises CannotStart."""
    if file is None:
        return Seal()
    try:
        key = Path(file).read_bytes().strip()
    except OSError as error:
        raise CannotStart(f"the dashboard's key file {file} cannot be read: {error}") from error
    if len(key) < KEY_BYTES:
        raise CannotStart(
            f"the dashboard's key file {file} has {len(key)} bytes, fewer than {KEY_BYTES}:"
            " write random bytes into it, such as `openssl rand -base64 48`"
        )
    return Seal(key)
