"""Translation of errors of ECS, ESS and their SDK into ProviderErrors.

Codes: "Common error codes" of Alibaba Cloud's API, and those of StopInstance, StartInstance,
RebootInstance and RemoveInstances. A code may have a suffix after a dot: `Throttling.User`.
"""

from datetime import timedelta

from alibabacloud_credentials.exceptions import CredentialException
from alibabacloud_tea_openapi.exceptions import AlibabaCloudException, ClientException
from darabonba.exceptions import RetryError
from requests import RequestException
from Tea.exceptions import TeaException, UnretryableException

from kubenode.providers.errors import (
    Busy,
    Denied,
    NoSuchMachine,
    ProviderError,
    Refused,
    Throttled,
    Unreachable,
)
from kubenode.providers.messages import plain

NAME = "alibaba"

DENIED = (
    "Forbidden.RAM",
    "Forbidden.AccessKey",
    "Forbidden.Unauthorized",
    "ImplicitDeny",
    "IncompleteSignature",
    "InvalidAccessKeyId",
    "InvalidAccessKeySecret",
    "InvalidCredentials",
    "InvalidSecurityToken",
    "MissingAccessKeyId",
    "MissingSecurityToken",
    "NoPermission",
    "SignatureDoesNotMatch",
    "SignatureNonceUsed",
    "Unauthorized",
)
BUSY = (
    "ConcurrentOperation",
    "EcsServiceUnavailable",
    "IncorrectInstanceStatus",
    "IncorrectScalingGroupStatus",
    "InstanceExpiredOrInArrears.Retry",
    "OperationConflict",
    "OperationDenied.NoStock",
    "OperationDenied.QuotaExceed",
    "ResourceNotAvailable",
    "ScalingActivityInProgress",
)
UNKNOWN_MACHINE = ("InvalidInstanceId.NotFound", "InvalidInstanceID.NotFound")
THROTTLED = ("Throttling", "FlowControl", "RequestLimitExceeded", "TooManyRequests")
BROKEN = ("InternalError", "ServiceUnavailable", "UnknownError", "RequestTimeout", "ServiceTimeout")


def explain(error: Exception) -> ProviderError | None:
    match error:
        case AlibabaCloudException() if error.status_code or error.code:
            return _answer(error)
        case CredentialException():
            return Denied(NAME, plain(f"{error.code or ''} {error.message}"))
        case UnretryableException() if (inner := _inside(error)) is not None:
            return explain(inner)
        case RetryError():
            return Unreachable(NAME, plain(str(error.message)))
        case UnretryableException() | RequestException():
            return Unreachable(NAME, plain(str(error)))
        case TeaException():
            return Refused(NAME, plain(f"{error.code}: {error.message}"))
        case _:
            return None


def _inside(error: UnretryableException) -> Exception | None:
    inner = getattr(error, "inner_exception", None)
    return inner if isinstance(inner, Exception) and inner is not error else None


def _answer(error: AlibabaCloudException) -> ProviderError:
    code, status = str(error.code or ""), int(error.status_code or 0)
    message = plain(f"{code}: {_message(error)}")
    if _is(code, THROTTLED) or status == 429:
        return Throttled(NAME, message, _milliseconds(error.retry_after))
    if isinstance(error, ClientException) and not status:
        return Denied(NAME, message)
    if _is(code, DENIED) or status == 401:
        return Denied(NAME, message)
    if code in UNKNOWN_MACHINE:
        return NoSuchMachine(NAME, message)
    if _is(code, BUSY):
        return Busy(NAME, message)
    if _is(code, BROKEN) or status == 408 or status >= 500:
        return Unreachable(NAME, message)
    return Refused(NAME, message)


def _is(code: str, known: tuple[str, ...]) -> bool:
    return any(code == prefix or code.startswith(f"{prefix}.") for prefix in known)


def _message(error: AlibabaCloudException) -> str:
    """Return the cloud's message, without the status and request ID that the SDK adds to it."""
    data = error.data if isinstance(error.data, dict) else {}
    return str(data.get("Message") or data.get("message") or error.message or "")


def _milliseconds(value: int | None) -> timedelta | None:
    return None if value is None else min(timedelta(milliseconds=value), timedelta(hours=1))
