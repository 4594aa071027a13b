"""Translation of errors of a BMC and of sushy into ProviderErrors (DSP0266, status codes)."""

import requests
from sushy import exceptions as sdk

from kubenode.providers.errors import Busy, Denied, ProviderError, Refused, Throttled, Unreachable
from kubenode.providers.messages import plain

NAME = "redfish"

BUSY = (
    "InvalidOperationForSystemState",
    "ResourceInUse",
    "SYS518",
    "ServiceTemporarilyUnavailable",
)


def explain(error: Exception) -> ProviderError | None:
    message = plain(str(error))
    match error:
        case sdk.AccessError() | sdk.MissingXAuthToken():
            return Denied(NAME, message)
        case sdk.HTTPError():
            return _answer(error, message)
        case sdk.ConnectionError() | requests.RequestException():
            return Unreachable(NAME, message)
        case sdk.InvalidParameterValueError() | sdk.MissingActionError():
            return Refused(NAME, message)
        case sdk.SushyError():
            return Unreachable(NAME, message)
        case _:
            return None


def _answer(error: sdk.HTTPError, message: str) -> ProviderError:
    """Translate an HTTP error. 404 does not prove a system gone: another BMC may have it."""
    status = int(error.status_code or 0)
    if status == 429:
        return Throttled(NAME, message)
    if status in (409, 503) or any(word in str(error) for word in BUSY):
        return Busy(NAME, message)
    if status == 408 or status >= 500:
        return Unreachable(NAME, message)
    return Refused(NAME, message)
