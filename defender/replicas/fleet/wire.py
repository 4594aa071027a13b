"""JSON form of a fleet's log entries, and of what is stored on the API server.

- c/CLUSTER: the row of a cluster.
- p/CLUSTER/PERMIT: a share.
- f/CLUSTER: who removed the cluster, and why.
"""

from datetime import datetime

import msgspec

from defender.decision.fleet_view import ClusterRow, LastClaims, Share, StoredFleet
from kubenode.api.v1alpha1 import Disruption, Operation


class _Row(msgspec.Struct, omit_defaults=True):
    members: int = 0
    healthy: int = 0
    reserves: dict[str, int] = {}
    roster: list[str] = []
    counted: list[str] = []
    beat: int | None = None
    silent: list[str] = []


class _Share(msgspec.Struct, omit_defaults=True):
    classes: list[str]
    operation: str
    grants: list[tuple[str, datetime]] = []
    open: bool = True
    healthy: bool = False
    every: bool = False


class _LastClaims(msgspec.Struct, omit_defaults=True):
    row: _Row
    shares: dict[str, _Share] = {}


class _StoredGroup(msgspec.Struct, omit_defaults=True):
    reserves: dict[str, int] = {}
    roster: list[str] = []
    total: int = 0
    silent: dict[str, _LastClaims] = {}
    forgotten: list[str] = []


_encode = msgspec.json.Encoder(order="deterministic").encode
_read_row = msgspec.json.Decoder(_Row).decode
_read_share = msgspec.json.Decoder(_Share).decode
_read_known = msgspec.json.Decoder(dict[str, _StoredGroup]).decode


def row_name(cluster: str) -> str:
    return f"c/{cluster}"


def share_name(cluster: str, permit: str) -> str:
    return f"p/{cluster}/{permit}"


def forgotten_name(cluster: str) -> str:
    return f"f/{cluster}"


def row_text(row: ClusterRow) -> str:
    return _encode(_row(row)).decode()


def _row(row: ClusterRow) -> _Row:
    reserves, roster, counted = dict(row.reserves), sorted(row.roster), sorted(row.counted)
    silent = sorted(row.silent)
    return _Row(row.members, row.healthy, reserves, roster, counted, row.beat, silent)


def share_text(share: Share) -> str:
    return _encode(_share(share)).decode()


def _share(share: Share) -> _Share:
    return _Share(
        sorted(each.value for each in share.classes),
        share.operation.value,
        [(class_.value, at) for class_, at in share.grants],
        share.open,
        share.healthy,
        share.every,
    )


def read_row(text: str) -> ClusterRow:
    """Return the row. Raises ValueError for an invalid one."""
    return _row_of(_read_row(text))


def _row_of(row: _Row) -> ClusterRow:
    return ClusterRow(
        row.members,
        row.healthy,
        row.reserves,
        frozenset(row.roster),
        frozenset(row.counted),
        row.beat,
        frozenset(row.silent),
    )


def read_share(text: str) -> Share:
    """Return the share. Raises ValueError for an invalid one.

    One with values of a later version counts for every operation and class.
    """
    return _share_of(_read_share(text))


def _share_of(share: _Share) -> Share:
    known = {each.value for each in Disruption}
    grants = tuple(
        (Disruption(class_) if class_ in known else Disruption.NODE, at)
        for class_, at in share.grants
    )
    of_later = share.operation not in {each.value for each in Operation} or not known.issuperset(
        (*share.classes, *(class_ for class_, _ in share.grants))
    )
    return Share(
        frozenset(Disruption(each) for each in share.classes if each in known),
        Operation.REPAIR if of_later else Operation(share.operation),
        grants,
        share.open,
        share.healthy,
        share.every or of_later,
    )


def known_text(groups: dict[str, StoredFleet]) -> str:
    return _encode(
        {
            name: _StoredGroup(
                dict(known.reserves),
                sorted(known.roster),
                known.total,
                {
                    cluster: _LastClaims(
                        _row(last.row),
                        {permit: _share(share) for permit, share in last.shares.items()},
                    )
                    for cluster, last in known.silent.items()
                },
                sorted(known.forgotten),
            )
            for name, known in groups.items()
        }
    ).decode()


def read_known(text: str) -> dict[str, StoredFleet]:
    """Return what is stored of each group. Raises ValueError for an invalid text."""
    groups = _read_known(text or "{}")
    return {
        name: StoredFleet(
            dict(known.reserves),
            frozenset(known.roster),
            known.total,
            {
                cluster: LastClaims(
                    _row_of(last.row),
                    {permit: _share_of(share) for permit, share in last.shares.items()},
                )
                for cluster, last in known.silent.items()
            },
            frozenset(known.forgotten),
        )
        for name, known in groups.items()
    }
