"""Users that may name holders of each kind. No I/O."""

from collections.abc import Iterable

from defender.decision.clients import PROGRAMS

ACCOUNT = "system:serviceaccount:"


def users_of(namespace: str, more: Iterable[str] = ()) -> dict[str, frozenset[str]]:
    """Return the users that may name holders of each kind, for an installation in `namespace`.

    more: additional KIND=USER. Raises ValueError.
    """
    users_by_kind = {kind: {f"{ACCOUNT}{namespace}:{name}"} for kind, name in PROGRAMS.items()}
    for each in more:
        kind, equals, user = each.partition("=")
        if not (kind and equals and user):
            raise ValueError(f"{each!r}: write KIND=USER")
        users_by_kind.setdefault(kind, set()).add(user)
    return {kind: frozenset(users) for kind, users in users_by_kind.items()}
