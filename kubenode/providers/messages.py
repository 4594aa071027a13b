"""Texts of providers and their SDKs for a status or log: short, and without secrets."""

import re
from datetime import timedelta

LONGEST = 300

_SECRETS = re.compile(
    r"(?i)((?:authorization|password|passwd|secret\w*|token|\w*_token|securitytoken|signature|"
    r"credential|accesskeyid|access[_-]?key[_-]?id|access[_-]?key[_-]?secret|sig|x-auth-token)"
    r"(?:[\"']?\s*[:=]\s*|\s+(?=[\"'])))"
    r"(\"[^\"]*\"|'[^']*'|(?:bearer|basic)\s+\S+|[^\s,;&}]+)"
)
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9+/._~=-]{8,}")
_USER_IN_URL = re.compile(r"(?i)(https?://)[^/\s@]+@")
_QUERY = re.compile(r"\?[^\s'\")]*")
_ENCODED = re.compile(r"(?i)\s*encoded authorization failure message: \S+")
_LONG_RUN = re.compile(r"[A-Za-z0-9+/_=-]{100,}")


def plain(text: str, *secrets: str) -> str:
    """Return `text` on one line, cut at `LONGEST`, without `secrets` and what looks like one."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "…")
    text = _ENCODED.sub("", text)
    text = _USER_IN_URL.sub(r"\1", text)
    text = _QUERY.sub("", text)
    text = _SECRETS.sub(r"\1…", text)
    text = _BEARER.sub(r"\1 …", text)
    text = _LONG_RUN.sub("…", text)
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def retry_after(value: str | None) -> timedelta | None:
    """Parse a header Retry-After in seconds, at most an hour. None if it is missing or a date."""
    if value is None or not re.fullmatch(r"[0-9]{1,6}", value.strip()):
        return None
    return min(timedelta(seconds=int(value)), timedelta(hours=1))
