"""Translation of ProviderErrors into the codes of `kubenode.providers.instances`. Pure."""

from datetime import timedelta

from kubenode.providers.errors import (
    Busy,
    Denied,
    NoSuchMachine,
    ProviderError,
    Refused,
    Throttled,
    Unreachable,
    Unsupported,
)
from kubenode.providers.instances import ErrorCode, InstanceError

CODES: dict[type[ProviderError], ErrorCode] = {
    Busy: ErrorCode.ABORTED,
    Denied: ErrorCode.PERMISSION_DENIED,
    NoSuchMachine: ErrorCode.NOT_FOUND,
    Refused: ErrorCode.FAILED_PRECONDITION,
    Throttled: ErrorCode.UNAVAILABLE,
    Unreachable: ErrorCode.UNKNOWN,
    Unsupported: ErrorCode.UNIMPLEMENTED,
}


def coded(error: ProviderError, name: str, *, changes: bool) -> InstanceError:
    """Return `error` as an InstanceError with the name of the provider's entry.

    changes: whether the request was a change. Without an answer a change has the code UNKNOWN,
        because it may have taken effect; a read has UNAVAILABLE.
    """
    after: timedelta | None = None
    if isinstance(error, InstanceError):
        code, after = error.code, error.after
    else:
        code = CODES.get(type(error), ErrorCode.INTERNAL)
        after = error.after if isinstance(error, Throttled) else None
    if code is ErrorCode.UNKNOWN and not changes:
        code = ErrorCode.UNAVAILABLE
    return InstanceError(name, code, error.message, after)
