"""Our error tree at the API server's border.

KubeError
├── BadRequest          400: the request makes no sense to the server
├── Unauthorized        401: credentials are wrong or expired, also after one reload
├── Forbidden           403: the credentials lack a right
├── NotFound            404: gone is an answer
├── Conflict            409: somebody wrote first
│   └── AlreadyExists   409: the name is taken; for derived names that is success
├── Gone                410: the resourceVersion is too old, list again
├── Invalid             422: the object breaks a rule of its schema
├── TooManyRequests     429: honour retry_after; for evictions a budget allows nothing now
├── Undecodable         the server answered with something we cannot read; a write has happened
└── ServerUnreachable   no answer: network error or timeout; a write may or may not have happened

No exception of aiohttp, kubernetes or msgspec travels inwards from `kubenode.runtime.kube`.
"""


class KubeError(Exception):
    """An answer of the API server that is not a success, or no answer.

    status: HTTP code; 0 without an answer
    reason: reason of the Status object (`Expired`, `AlreadyExists`, ...), "" without one
    message: the server's sentence
    retry_after: seconds that the server demands before a retry, None if it names none
    causes: reasons of `details.causes` (`ResourceVersionTooLarge`, `DisruptionBudget`, ...)
    tried: method and path of the request, "" if unknown
    """

    def __init__(
        self,
        status: int,
        reason: str = "",
        message: str = "",
        retry_after: float | None = None,
        causes: frozenset[str] = frozenset(),
        *,
        tried: str = "",
    ) -> None:
        answer = " ".join(str(part) for part in (status or "", reason) if part)
        super().__init__(": ".join(part for part in (tried, answer, message) if part))
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        self.causes = causes
        self.tried = tried


class BadRequest(KubeError): ...


class Unauthorized(KubeError): ...


class Forbidden(KubeError): ...


class NotFound(KubeError): ...


class Conflict(KubeError): ...


class AlreadyExists(Conflict): ...


class Gone(KubeError): ...


class Invalid(KubeError): ...


class TooManyRequests(KubeError): ...


class Undecodable(KubeError): ...


class ServerUnreachable(KubeError):
    def __init__(self, message: str, *, tried: str = "") -> None:
        super().__init__(0, "Unreachable", message, tried=tried)


TOO_LARGE_RESOURCE_VERSION = "ResourceVersionTooLarge"
"""Cause of a 504: the server has not reached the resourceVersion that we know."""

_BY_STATUS: dict[int, type[KubeError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


def error_for(
    status: int,
    reason: str = "",
    message: str = "",
    retry_after: float | None = None,
    causes: frozenset[str] = frozenset(),
    *,
    tried: str = "",
) -> KubeError:
    """Build an error of the most specific class for an answer of the server."""
    kind = _BY_STATUS.get(status, KubeError)
    if status == 409 and reason == "AlreadyExists":
        kind = AlreadyExists
    return kind(status, reason, message, retry_after, causes, tried=tried)
