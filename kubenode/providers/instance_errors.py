"""From what a provider says no with to the codes of `instances.py`. Pure."""

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
from kubenode.providers.instances import Code, InstanceError

CODES: dict[type[ProviderError], Code] = {
    Busy: Code.ABORTED,
    Denied: Code.PERMISSION_DENIED,
    NoSuchMachine: Code.NOT_FOUND,
    Refused: Code.FAILED_PRECONDITION,
    Throttled: Code.UNAVAILABLE,
    Unreachable: Code.UNKNOWN,
    Unsupported: Code.UNIMPLEMENTED,
}


def coded(error: ProviderError, name: str, *, changes: bool) -> InstanceError:
    """`error` under the name of the provider's entry.

    changes  whether it was asked for a change: only that may have taken effect without an answer
    """
    after: timedelta | None = None
    if isinstance(error, InstanceError):
        code, after = error.code, error.after
    else:
        code = CODES.get(type(error), Code.INTERNAL)
        after = error.after if isinstance(error, Throttled) else None
    if code is Code.UNKNOWN and not changes:
        code = Code.UNAVAILABLE
    return InstanceError(name, code, error.told, after)
