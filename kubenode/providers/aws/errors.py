"""Translation of errors of EC2, Auto Scaling and botocore into ProviderErrors.

Codes: "Error codes for the Amazon EC2 API", and the common errors of the Auto Scaling API.
"""

from botocore import exceptions as sdk

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

NAME = "aws"

THROTTLED = frozenset({
    "BandwidthLimitExceeded",
    "EC2ThrottledException",
    "PriorRequestNotComplete",
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "TooManyRequestsException",
})  # fmt: skip
DENIED = frozenset({
    "AccessDenied",
    "AccessDeniedException",
    "AuthFailure",
    "Blocked",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "MissingAuthenticationToken",
    "NotAuthorized",
    "OptInRequired",
    "PendingVerification",
    "RequestExpired",
    "SignatureDoesNotMatch",
    "UnauthorizedOperation",
    "UnrecognizedClientException",
})  # fmt: skip
UNKNOWN_MACHINE = frozenset({"InvalidInstanceID.NotFound"})
BUSY = frozenset({
    "ConcurrentModification",
    "IncorrectInstanceState",
    "IncorrectState",
    "InsufficientAddressCapacity",
    "InsufficientCapacity",
    "InsufficientHostCapacity",
    "InsufficientInstanceCapacity",
    "InsufficientReservedInstanceCapacity",
    "OperationInProgress",
    "ResourceContention",
    "ResourceInUse",
    "ScalingActivityInProgress",
})  # fmt: skip
"""Codes that a retry may get past. A start without capacity may find some later."""
BROKEN = frozenset({
    "InternalError",
    "InternalFailure",
    "InternalServerError",
    "RequestTimeout",
    "ServiceUnavailable",
    "Unavailable",
})  # fmt: skip
NO_CREDENTIALS = (
    sdk.CredentialRetrievalError,
    sdk.ConfigNotFound,
    sdk.NoAuthTokenError,
    sdk.NoCredentialsError,
    sdk.PartialCredentialsError,
    sdk.ProfileNotFound,
    sdk.RefreshWithMFAUnsupportedError,
    sdk.SSOError,
    sdk.TokenRetrievalError,
)
NETWORK = (sdk.HTTPClientError, sdk.ConnectionError, sdk.MetadataRetrievalError)


def explain(error: Exception) -> ProviderError | None:
    message = plain(str(error))
    match error:
        case sdk.ClientError():
            return _answer(error)
        case _ if isinstance(error, NO_CREDENTIALS):
            return Denied(NAME, message)
        case _ if isinstance(error, NETWORK):
            return Unreachable(NAME, message)
        case sdk.BotoCoreError():
            return Refused(NAME, message)
        case _:
            return None


def _answer(error: sdk.ClientError) -> ProviderError:
    answer = error.response
    code = str(answer.get("Error", {}).get("Code", ""))
    message = plain(f"{code}: {answer.get('Error', {}).get('Message', '')}")
    about = answer.get("ResponseMetadata", {})
    status = int(about.get("HTTPStatusCode", 0))
    if code in THROTTLED or status == 429:
        return Throttled(
            NAME, message, retry_after(about.get("HTTPHeaders", {}).get("retry-after"))
        )
    if code in DENIED:
        return Denied(NAME, message)
    if code in UNKNOWN_MACHINE:
        return NoSuchMachine(NAME, message)
    if code in BUSY:
        return Busy(NAME, message)
    if code in BROKEN or status >= 500:
        return Unreachable(NAME, message)
    return Refused(NAME, message)
