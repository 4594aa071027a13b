"""Requests and answers of admission.k8s.io/v1 AdmissionReview. No I/O.

Source of the form: kubernetes `staging/src/k8s.io/api/admission/v1/types.go`.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
LONGEST_WARNING = 256
"""Bytes. The API server cuts longer warnings, and drops all beyond 4096 bytes together."""
MOST_WARNINGS = 12
MOST_VALUES = 200_000
"""Values in one review. Each is an object in memory: 8 MB of empty lists would take 200 MB."""
REASONS = {422: "Invalid", 429: "TooManyRequests", 503: "ServiceUnavailable"}
"""Reason of a Status by its code."""


class BadReview(ValueError):
    """A body that is no request to one of our webhooks. The text says why."""


class _AdmissionUser(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None


class _AdmissionResource(msgspec.Struct):
    group: str = ""
    resource: str = ""


class _AdmissionRequest(msgspec.Struct, rename="camel"):
    uid: str = ""
    operation: str = ""
    name: str = ""
    namespace: str = ""
    sub_resource: str = ""
    dry_run: bool | None = None
    resource: _AdmissionResource = msgspec.field(default_factory=_AdmissionResource)
    user_info: _AdmissionUser = msgspec.field(default_factory=_AdmissionUser)
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None


class _AdmissionReview(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: _AdmissionRequest | None = None


@dataclass(frozen=True, slots=True)
class Review:
    """One write that the API server asks about.

    operation: CREATE, UPDATE, DELETE or CONNECT
    resource: such as `nodes.`, `pods.` or `noderemediers.kubenode.io`; `sub_resource` is apart
    object: the new object, None for a deletion
    old: the present object, None for a creation
    """

    uid: str
    operation: str
    name: str
    resource: str
    user: str
    dry_run: bool
    object: Mapping[str, Any] | None
    old: Mapping[str, Any] | None
    namespace: str = ""
    sub_resource: str = ""
    groups: tuple[str, ...] = ()
    user_uid: str = ""


@dataclass(frozen=True, slots=True)
class AdmissionVerdict:
    """The answer of a webhook.

    code: HTTP code of a refusal
    warnings: shown to the client, whether allowed or not
    audit: annotations of the audit log, where the API server prefixes keys by the webhook's name
    patch: operations of a JSON patch (RFC 6902) on the object, only from a mutating webhook
    """

    allowed: bool
    message: str = ""
    code: int = 422
    warnings: Sequence[str] = ()
    audit: Mapping[str, str] = field(default_factory=dict)
    patch: Sequence[Mapping[str, Any]] = ()


def read(raw: bytes) -> Review:
    """Parse the body of a request. Raises BadReview."""
    values = raw.count(b",") + raw.count(b"{") + raw.count(b"[")  # also inside of strings
    if values > MOST_VALUES:
        raise BadReview(f"body: has about {values} values, at most {MOST_VALUES} are read")
    try:
        review = msgspec.json.decode(raw, type=_AdmissionReview)
    except msgspec.DecodeError as error:
        raise BadReview(f"body: no {API_VERSION} {KIND}: {error}") from error
    except (RecursionError, UnicodeDecodeError) as error:
        raise BadReview(f"body: cannot be read: {type(error).__name__}") from error
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        given = f"{review.api_version or 'none'} {review.kind or 'none'}"
        raise BadReview(
            f"apiVersion and kind: {given[:80]} is not known: send {API_VERSION} {KIND}"
        )
    request = review.request
    if request is None or not request.uid:
        raise BadReview("request.uid: required and missing: send the AdmissionReview's request")
    return Review(
        uid=request.uid,
        operation=request.operation,
        name=request.name,
        resource=f"{request.resource.resource}.{request.resource.group}",
        user=request.user_info.username,
        dry_run=bool(request.dry_run),
        object=request.object,
        old=request.old_object,
        namespace=request.namespace,
        sub_resource=request.sub_resource,
        groups=tuple(request.user_info.groups or ()),
        user_uid=request.user_info.uid,
    )


def answer(uid: str, verdict: AdmissionVerdict, where_all: str = "") -> dict[str, Any]:
    """Build the body of the reply. `where_all` says where people find omitted warnings."""
    response: dict[str, Any] = {"uid": uid, "allowed": verdict.allowed}
    if not verdict.allowed:
        response["status"] = {
            "status": "Failure",
            "code": verdict.code,
            "reason": REASONS[verdict.code],
            "message": verdict.message,
        }
    if verdict.warnings:
        response["warnings"] = _bounded(verdict.warnings, where_all)
    if verdict.allowed and verdict.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(verdict.patch)).decode()
    if verdict.audit:
        response["auditAnnotations"] = dict(verdict.audit)
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}


def _bounded(warnings: Sequence[str], where_all: str) -> list[str]:
    shown = [_cut(text) for text in warnings[:MOST_WARNINGS]]
    if more := len(warnings) - len(shown):
        shown.append(f"and {more} more{f': {where_all}' if where_all else ''}")
    return shown


def _cut(text: str) -> str:
    raw = text.encode()
    if len(raw) <= LONGEST_WARNING:
        return text
    return raw[: LONGEST_WARNING - 3].decode(errors="ignore") + "…"
