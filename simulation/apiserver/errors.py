"""Errors, with the messages of a real API server.

Every error is sent as a `Status` object, so client-go, kubectl and our own client handle it like
one of a real server. Source: apimachinery `pkg/api/errors/errors.go` for reasons and messages.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulation.apiserver.registry import ServedResource

Obj = dict[str, Any]
"""A decoded JSON object. Stored ones are shared between versions: never change one in place."""


class ApiError(Exception):
    """A response other than success.

    code: the HTTP status.
    reason: a metav1.StatusReason.
    details: goes into Status.details (keys `name`, `group`, `kind`, `causes`, `retryAfterSeconds`).
    """

    def __init__(self, code: int, reason: str, message: str, **details: object) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = {key: value for key, value in details.items() if value != ""}

    def status(self) -> Obj:
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": self.details,
            "code": self.code,
        }


@dataclass(frozen=True, slots=True)
class Cause:
    """One error in an object.

    reason: a metav1.CauseType.
    """

    field: str
    message: str
    reason: str = "FieldValueInvalid"

    def to_dict(self) -> Mapping[str, str]:
        return {"reason": self.reason, "message": self.message, "field": self.field}


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def no_such_object(resource: "ServedResource", name: str) -> ApiError:
    message = f'{resource.qualified} "{name}" not found'
    return ApiError(404, "NotFound", message, name=name, group=resource.group, kind=resource.plural)


def no_such_path() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def already_exists(resource: "ServedResource", name: str) -> ApiError:
    message = f'{resource.qualified} "{name}" already exists'
    return ApiError(
        409, "AlreadyExists", message, name=name, group=resource.group, kind=resource.plural
    )


def conflict(resource: "ServedResource", name: str, why: str) -> ApiError:
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return ApiError(409, "Conflict", message, name=name, group=resource.group, kind=resource.plural)


def modified(resource: "ServedResource", name: str) -> ApiError:
    return conflict(
        resource,
        name,
        "the object has been modified; please apply your changes to the latest version and "
        "try again",
    )


def invalid(resource: "ServedResource", name: str, causes: Iterable[Cause]) -> ApiError:
    causes = list(causes)
    listed = [f"{c.field}: {c.message}" if c.field else c.message for c in causes]
    sentence = listed[0] if len(listed) == 1 else f"[{', '.join(listed)}]"
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    return ApiError(
        422,
        "Invalid",
        f'{kind} "{name}" is invalid: {sentence}',
        name=name,
        group=resource.group,
        kind=resource.kind,
        causes=[c.to_dict() for c in causes],
    )


def unreadable(resource: "ServedResource", why: str, patch: bool) -> ApiError:
    """Return the error for a body that does not fit its kind: 422 for a patch, otherwise 400."""
    if patch:
        return invalid(resource, "", [Cause("patch", f"Invalid value: {why}")])
    kind = resource.kind
    return bad_request(
        f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {why}'
    )


def expired(message: str) -> ApiError:
    return ApiError(410, "Expired", message)


def too_large(requested: int, current: int) -> ApiError:
    """Return the error for a resourceVersion that this server has not reached."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return ApiError(
        504,
        "Timeout",
        f"Too large resource version: {requested}, current: {current}",
        causes=[cause],
        retryAfterSeconds=1,
    )


def unsupported(code: int, what: str, instead: str) -> ApiError:
    """Return the error for a feature of a real server that this one lacks.

    instead: what to do.
    """
    reasons = {
        404: "NotFound",
        405: "MethodNotAllowed",
        406: "NotAcceptable",
        415: "UnsupportedMediaType",
        422: "Invalid",
    }
    message = f"the embedded API server does not support {what}: {instead}"
    return ApiError(code, reasons.get(code, "BadRequest"), message)
