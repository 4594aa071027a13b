"""Rows and shares as entries of a fleet's log, and what is kept of a fleet on the API server. JSON.

c/CLUSTER          a Row
p/CLUSTER/PERMIT   a Share
"""

from datetime import datetime

import msgspec

from defender.fleet.view import Known, Row, Share
from kubenode.api.v1alpha1 import Disruption, Operation


class _Row(msgspec.Struct, omit_defaults=True):
    members: int = 0
    healthy: int = 0
    reserves: dict[str, int] = {}
    roster: list[str] = []
    counted: list[str] = []


class _Share(msgspec.Struct, omit_defaults=True):
    classes: list[str]
    operation: str
    grants: list[tuple[str, datetime]] = []
    open: bool = True
    healthy: bool = False


class _Known(msgspec.Struct, omit_defaults=True):
    reserves: dict[str, int] = {}
    roster: list[str] = []
    total: int = 0


_encode = msgspec.json.Encoder(order="deterministic").encode
_read_row = msgspec.json.Decoder(_Row).decode
_read_share = msgspec.json.Decoder(_Share).decode
_read_known = msgspec.json.Decoder(dict[str, _Known]).decode


def row_name(cluster: str) -> str:
    return f"c/{cluster}"


def share_name(cluster: str, permit: str) -> str:
    return f"p/{cluster}/{permit}"


def row_text(row: Row) -> str:
    reserves, roster, counted = dict(row.reserves), sorted(row.roster), sorted(row.counted)
    return _encode(_Row(row.members, row.healthy, reserves, roster, counted)).decode()


def share_text(share: Share) -> str:
    return _encode(
        _Share(
            sorted(each.value for each in share.classes),
            share.operation.value,
            [(class_.value, at) for class_, at in share.grants],
            share.open,
            share.healthy,
        )
    ).decode()


def read_row(text: str) -> Row:
    """Raises ValueError."""
    row = _read_row(text)
    return Row(
        row.members, row.healthy, row.reserves, frozenset(row.roster), frozenset(row.counted)
    )


def read_share(text: str) -> Share:
    """Raises ValueError."""
    share = _read_share(text)
    return Share(
        frozenset(Disruption(each) for each in share.classes),
        Operation(share.operation),
        tuple((Disruption(class_), at) for class_, at in share.grants),
        share.open,
        share.healthy,
    )


def known_text(groups: dict[str, Known]) -> str:
    return _encode(
        {
            name: _Known(dict(known.reserves), sorted(known.roster), known.total)
            for name, known in groups.items()
        }
    ).decode()


def read_known(text: str) -> dict[str, Known]:
    """Raises ValueError."""
    found = _read_known(text or "{}")
    return {
        name: Known(dict(known.reserves), frozenset(known.roster), known.total)
        for name, known in found.items()
    }
