"""A permit of the ledger as an entry of the log, JSON. Another version's fields are left alone."""

from datetime import datetime

import msgspec

from defender.ledger import Held
from kubenode.api.v1alpha1 import Disruption, Operation
from kubenode.api.v1alpha1.permit import Holder, PermitState


class _Holder(msgspec.Struct):
    kind: str
    name: str
    uid: str


class _Permit(msgspec.Struct, omit_defaults=True):
    node: str
    operation: str
    holder: _Holder
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


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Permit).decode


def written(held: Held) -> str:
    return _encode(
        _Permit(
            node=held.node,
            operation=held.operation.value,
            holder=_Holder(held.holder.kind, held.holder.name, held.holder.uid),
            grants=[(class_.value, at) for class_, at in held.grants],
            expires_at=held.expires_at,
            state=held.state.value,
            scopes=None if held.scopes is None else sorted(held.scopes),
            policy_generation=held.policy_generation,
            renewed_at=held.renewed_at,
            released_at=held.released_at,
            uid=held.uid,
            resource_version=held.resource_version,
            unsure=held.unsure,
            also=sorted(each.value for each in held.also),
            releasing=held.releasing,
            status_written=held.status_written,
            late=held.late,
        )
    ).decode()


def read(name: str, take: int, text: str) -> Held:
    """Raises ValueError for what does not fit."""
    permit = _decode(text)
    return Held(
        name=name,
        node=permit.node,
        operation=Operation(permit.operation),
        holder=Holder(kind=permit.holder.kind, name=permit.holder.name, uid=permit.holder.uid),
        grants=[(Disruption(class_), at) for class_, at in permit.grants],
        expires_at=permit.expires_at,
        state=PermitState(permit.state),
        scopes=None if permit.scopes is None else frozenset(permit.scopes),
        policy_generation=permit.policy_generation,
        renewed_at=permit.renewed_at,
        released_at=permit.released_at,
        uid=permit.uid,
        resource_version=permit.resource_version,
        unsure=permit.unsure,
        also=frozenset(Disruption(each) for each in permit.also),
        releasing=permit.releasing,
        status_written=permit.status_written,
        late=permit.late,
        take=take,
    )
