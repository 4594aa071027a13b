"""Translation of errors of Azure's resource manager and its SDK into ProviderErrors.

Codes: "Common cloud error codes" of the resource manager, and error messages of virtual machines.
"""

from azure.core import exceptions as sdk

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

NAME = "azure"

NOT_OURS = frozenset({"SubscriptionNotFound", "InvalidSubscriptionId", "TenantNotFound"})
"""Codes of answers 404 and 400 that concern the credentials, not the machine."""
NO_CAPACITY = frozenset({
    "AllocationFailed",
    "OverconstrainedAllocationRequest",
    "OverconstrainedZonalAllocationRequest",
    "SkuNotAvailable",
    "ZonalAllocationFailed",
})  # fmt: skip
FINAL = frozenset({
    "OperationNotAllowed",
    "PropertyChangeNotAllowed",
    "QuotaExceeded",
    "ScopeLocked",
})  # fmt: skip
"""Codes of answers 409 for which a retry would fail as well."""


def explain(error: Exception) -> ProviderError | None:
    match error:
        case sdk.ClientAuthenticationError():
            return Denied(NAME, _describe_error(error))
        case sdk.HttpResponseError() if error.status_code is not None:
            return _answer(error, error.status_code)
        case sdk.ServiceRequestError() | sdk.ServiceResponseError() | sdk.HttpResponseError():
            return Unreachable(NAME, plain(str(error)))
        case sdk.AzureError():
            return Refused(NAME, plain(str(error)))
        case _:
            return None


def _answer(error: sdk.HttpResponseError, status: int) -> ProviderError:
    code, message = _code(error), _describe_error(error)
    headers = getattr(error.response, "headers", None) or {}
    if status == 429 or code == "TooManyRequests":
        return Throttled(NAME, message, retry_after(headers.get("Retry-After")))
    if code == "RequestDisallowedByPolicy":
        return Refused(NAME, message)
    if status in (401, 403) or code in NOT_OURS:
        return Denied(NAME, message)
    if code in NO_CAPACITY:
        return Busy(NAME, message)
    if status == 404:
        return NoSuchMachine(NAME, message)
    if status == 409 and code not in FINAL:
        return Busy(NAME, message)
    if status == 408 or status >= 500:
        return Unreachable(NAME, message)
    return Refused(NAME, message)


def _code(error: sdk.HttpResponseError) -> str:
    return str(getattr(error.error, "code", None) or "")


def _describe_error(error: sdk.HttpResponseError) -> str:
    """Return code and message, without the copies of the answer that the SDK appends."""
    message = str(getattr(error.error, "message", None) or error.message)
    code = _code(error)
    return plain(f"{code}: {message}" if code else message)
