"""Numbers that a limit demands in a group of a given size.

A percentage of maxConcurrent is rounded down to at least 1, except "0%", which allows none. A
percentage of minHealthy is rounded down. In a small group percentages do not apply: one node at a
time, and all others must be healthy.
"""

from functools import lru_cache
from typing import NamedTuple

from kubenode.api.share import is_ratio, share_of


class Demand(NamedTuple):
    """What a limit demands.

    most: permits at once, None without such a limit.
    stay: nodes that must stay healthy by minHealthy.
    small: whether all other nodes must be healthy, because the group is small.
    """

    most: int | None
    stay: int
    small: bool


@lru_cache(maxsize=2**16)
def demand(
    max_concurrent: int | str | None,
    min_healthy: int | str | None,
    small_pool: int,
    members: int,
) -> Demand:
    """Return the numbers for a group.

    max_concurrent, min_healthy: as in the limit.
    small_pool: size up to which a group is small.
    members: size of the group.
    """
    shares = [share for share in (max_concurrent, min_healthy) if share is not None]
    small = members <= small_pool and any(is_ratio(share) for share in shares)
    stay = 0
    if min_healthy is not None and not (small and is_ratio(min_healthy)):
        stay = share_of(min_healthy, members)
    return Demand(_most(max_concurrent, members, small), stay, small)


def _most(share: int | str | None, members: int, small: bool) -> int | None:
    if share is None:
        return 1 if small else None
    if isinstance(share, str) and int(share[:-1]) == 0:
        return 0
    most = max(1, share_of(share, members)) if is_ratio(share) else share_of(share, members)
    return min(1, most) if small else most
