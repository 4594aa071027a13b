"""JSON form of a ledger's permit in the log. Unknown fields of another version are ignored."""

from datetime import datetime
from enum import StrEnum
from typing import TypeVar

import msgspec

from defender.decision.ledger import LedgerPermit
from kubenode.api.v1alpha1 import Disruption, Operation
from kubenode.api.v1alpha1.permit import Holder, PermitState

E = TypeVar("E", bound=StrEnum)


class _StoredHolder(msgspec.Struct, omit_defaults=True):
    kind: str
    name: str
    uid: str
    user: str | None = None
    user_uid: str | None = None


class _Permit(msgspec.Struct, omit_defaults=True):
    node: str
    operation: str
    holder: _StoredHolder
    grants: list[tuple[str, datetime]]
    expires_at: datetime
    state: str = PermitState.GRANTED.value
    scopes: list[str] | None = None
    policy_generation: int = 0
    renewed_at: datetime | None = None
    released_at: datetime | None = None
    uid: str = ""
    resource_version: str = ""
    unsure: int = 0
    also: list[str] = []
    releasing: bool = False
    status_written: bool = False
    late: bool = False
    unreadable: str = ""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Permit).decode


def written(permit: LedgerPermit) -> str:
    """Return the entry for the permit."""
    return _encode(
        _Permit(
            node=permit.node,
            operation=permit.operation.value,
            holder=_StoredHolder(
                permit.holder.kind,
                permit.holder.name,
                permit.holder.uid,
                permit.holder.user,
                permit.holder.user_uid,
            ),
            grants=[(class_.value, at) for class_, at in permit.grants],
            expires_at=permit.expires_at,
            state=permit.state.value,
            scopes=None if permit.scopes is None else sorted(permit.scopes),
            policy_generation=permit.policy_generation,
            renewed_at=permit.renewed_at,
            released_at=permit.released_at,
            uid=permit.uid,
            resource_version=permit.resource_version,
            unsure=permit.unsure,
            also=sorted(each.value for each in permit.also),
            releasing=permit.releasing,
            status_written=permit.status_written,
            late=permit.late,
            unreadable=permit.unreadable,
        )
    ).decode()


def read(name: str, take: int, text: str) -> LedgerPermit:
    """Return the permit from an entry. Raises ValueError for an invalid one.

    An entry with values of a later version is unreadable, and counts as all that it may be.
    """
    permit = _decode(text)
    operation = _parse_enum(Operation, permit.operation)
    state = _parse_enum(PermitState, permit.state)
    classes = [_parse_enum(Disruption, class_) for class_, _ in permit.grants]
    also = [_parse_enum(Disruption, each) for each in permit.also]
    unreadable = permit.unreadable
    if None in (operation, state, *classes, *also):
        unreadable = unreadable or "an entry of the log has values of a later version"
    return LedgerPermit(
        name=name,
        node=permit.node,
        operation=operation or Operation.REPAIR,
        holder=Holder(
            kind=permit.holder.kind,
            name=permit.holder.name,
            uid=permit.holder.uid,
            user=permit.holder.user,
            user_uid=permit.holder.user_uid,
        ),
        grants=[
            (c or Disruption.NODE, at) for c, (_, at) in zip(classes, permit.grants, strict=True)
        ],
        expires_at=permit.expires_at,
        state=state or PermitState.GRANTED,
        scopes=None if permit.scopes is None else frozenset(permit.scopes),
        policy_generation=permit.policy_generation,
        renewed_at=permit.renewed_at,
        released_at=permit.released_at,
        uid=permit.uid,
        resource_version=permit.resource_version,
        unsure=permit.unsure,
        also=frozenset(each for each in also if each is not None),
        releasing=permit.releasing,
        status_written=permit.status_written,
        late=permit.late,
        take=take,
        unreadable=unreadable,
    )


def _parse_enum(kind: type[E], text: str) -> E | None:
    return next((each for each in kind if each.value == text), None)
