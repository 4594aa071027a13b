"""Translation of errors of Compute Engine, google-auth and requests into ProviderErrors.

Codes: "Troubleshooting the Compute Engine API" (reasons in `error.errors[].reason`).
"""

from collections.abc import Mapping

import requests
from google.api_core import exceptions as api
from google.auth import exceptions as auth

from kubenode.providers.errors import (
    Busy,
    Denied,
    NoSuchMachine,
    ProviderError,
    Refused,
    Throttled,
    Unreachable,
)
from kubenode.providers.messages import plain, retry_after

NAME = "gcp"

THROTTLED = frozenset({
    "concurrentOperationQuotaExceeded",
    "dailyLimitExceeded",
    "rateLimitExceeded",
    "userRateLimitExceeded",
})  # fmt: skip
"""Reasons of an answer 403 that means too many requests."""
NOT_READY = frozenset({"resourceInUseByAnotherResource", "resourceNotReady", "operationInProgress"})
"""Reasons of an answer 400 that means another operation on the instance is in progress."""


def explain(error: Exception) -> ProviderError | None:
    message = plain(str(error))
    match error:
        case api.GoogleAPICallError() if error.code is not None:
            return _answer(error, int(error.code))
        case auth.TransportError():
            return Unreachable(NAME, message)
        case auth.GoogleAuthError():
            return Denied(NAME, message)
        case api.GoogleAPIError() | requests.RequestException():
            return Unreachable(NAME, message)
        case _:
            return None


def _answer(error: api.GoogleAPICallError, status: int) -> ProviderError:
    details = [e for e in error.errors if isinstance(e, Mapping)]
    reasons = {str(e["reason"]) for e in details if "reason" in e}
    # The SDK puts the request's URL before the message, and the URL names the instance.
    detail = next((str(e["message"]) for e in details if "message" in e), error.message)
    message = plain(f"{status} {' '.join(sorted(reasons))}: {detail}")
    if status == 429 or reasons & THROTTLED:
        headers = getattr(error.response, "headers", None) or {}
        return Throttled(NAME, message, retry_after(headers.get("Retry-After")))
    if status in (401, 403):
        return Denied(NAME, message)
    if status == 404:
        # A project that is not found points at the credentials, not at the machine.
        return NoSuchMachine(NAME, message) if "/instances/" in detail else Denied(NAME, message)
    if status == 409 or reasons & NOT_READY or "POOL_EXHAUSTED" in detail:
        return Busy(NAME, message)
    if status == 408 or status >= 500:
        return Unreachable(NAME, message)
    return Refused(NAME, message)
