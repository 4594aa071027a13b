"""Reader of stored Permits, including those that do not fit this version.

A Permit of a later version, or one that a person edited, may have unknown values. Its readable
fields are used: node, holder, state, times. For the others the worst is assumed: a state that is
not "Released" is open, and an unknown operation or class counts as each.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar

import msgspec
from pydantic import TypeAdapter, ValidationError

from kubenode.api.meta import ObjectMeta, Time
from kubenode.api.problems import problems
from kubenode.api.v1alpha1 import Disruption, Operation, Permit
from kubenode.api.v1alpha1.permit import Grant, Holder, PermitSpec, PermitState, PermitStatus
from kubenode.runtime.kube.wire import decode_head

UNREADABLE = "Unreadable"
"""Kind of the holder of a Permit whose holder is unreadable. No such kind exists."""
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
"""Bounds of valid times. Beyond them, adding a duration may overflow."""
MOST_REASON_CHARS = 500
"""Greatest length of `why`, in characters."""
E = TypeVar("E", bound=StrEnum)
_time: TypeAdapter[datetime] = TypeAdapter(Time)
_holder: TypeAdapter[Holder] = TypeAdapter(Holder)


class UnreadablePermit(Permit):
    """A Permit that does not fit this version: what can be read of it, the worst for the rest.

    why  what does not fit; never ""

    `spec.nodeName` is "" and the holder's kind UNREADABLE where these cannot be read.
    """

    why: str = ""


def read_permit(raw: bytes) -> Permit:
    """Read a Permit from the API server. Return an UnreadablePermit if it does not fit.

    Raises ValueError only if not even its name is readable.
    """
    try:
        permit = Permit.from_server(raw)
    except ValidationError as error:
        return _unreadable(raw, "; ".join(problems(error, Permit)))
    for at in _times(permit):
        if not EARLIEST <= at < LATEST:
            return _unreadable(raw, f"{at.isoformat()} is no time of an act")
    return permit


def _times(permit: Permit) -> Iterator[datetime]:
    status = permit.status
    stamps = (status.granted_at, status.expires_at, status.renewed_at, status.released_at)
    yield from (at for at in (*stamps, permit.metadata.creation_timestamp) if at is not None)
    yield from (grant.at for grant in permit.spec.grants)


def _unreadable(raw: bytes, why: str) -> UnreadablePermit:
    head = decode_head(raw).metadata
    if not head.name:
        raise ValueError(f"a Permit without a name: {why}")
    content = _mapping(msgspec.json.decode(raw))
    meta, spec, status = (_mapping(content.get(part)) for part in ("metadata", "spec", "status"))
    version = head.resource_version
    uid = _text(meta.get("uid"))
    created = _instant(meta.get("creationTimestamp"))
    grants = list(_grants(spec.get("grants")))
    return UnreadablePermit.model_construct(
        metadata=ObjectMeta.model_construct(
            name=head.name,
            uid=uid,
            resource_version=version if version.isdecimal() else "",
            creation_timestamp=created,
        ),
        spec=PermitSpec.model_construct(
            operation=_parse_enum(Operation, spec.get("operation")) or Operation.REPAIR,
            class_=_parse_enum(Disruption, spec.get("class")) or Disruption.NODE,
            node_name=_text(spec.get("nodeName")),
            holder=_holder_in(spec.get("holder"), head.name, uid),
            grants=grants or [Grant(class_=Disruption.NODE, at=created or EARLIEST)],
        ),
        status=_status(status, created or EARLIEST),
        why=why[:MOST_REASON_CHARS] or "it does not fit",
    )


def _status(status: dict[str, Any], created: datetime) -> PermitStatus:
    scopes = status.get("scopes")
    known = isinstance(scopes, list) and all(isinstance(each, str) and each for each in scopes)
    return PermitStatus.model_construct(
        # An unknown state, as of a later version, or a missing one counts as open.
        state=_parse_enum(PermitState, status.get("state")) or PermitState.GRANTED,
        granted_at=_instant(status.get("grantedAt")),
        expires_at=_instant(status.get("expiresAt")) or created,
        renewed_at=_instant(status.get("renewedAt")),
        released_at=_instant(status.get("releasedAt")),
        scopes=list(scopes) if known and isinstance(scopes, list) else [],
    )


def _grants(value: Any) -> Iterator[Grant]:
    """Yield the grants whose time is readable."""
    for each in value if isinstance(value, list) else ():
        grant = _mapping(each)
        if (at := _instant(grant.get("at"))) is not None:
            class_ = _parse_enum(Disruption, grant.get("class")) or Disruption.NODE
            yield Grant(class_=class_, at=at)


def _holder_in(value: Any, name: str, uid: str) -> Holder:
    try:
        return _holder.validate_python(_mapping(value), extra="ignore")
    except ValidationError:
        return Holder(kind=UNREADABLE, name=name, uid=uid or name)


def _instant(value: Any) -> datetime | None:
    try:
        at = _time.validate_python(value)
    except ValidationError:
        return None
    return at if EARLIEST <= at < LATEST else None


def _parse_enum(kind: type[E], value: Any) -> E | None:
    return next((each for each in kind if each.value == value), None)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
