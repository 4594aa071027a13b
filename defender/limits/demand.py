"""What a limit asks for in a group of some size: the arithmetic of shares.

A percentage of maxConcurrent rounds down, but to no less than 1; only "0%" and 0 mean none at all.
A percentage of minHealthy rounds down. In a small group shares do not apply: one at a time, and all
others healthy.
"""

from functools import lru_cache
from typing import NamedTuple

from kubenode.api.share import is_ratio, share_of


class Demand(NamedTuple):
    """most   permits at once; None for no such limit
    stay   nodes that must stay healthy by minHealthy
    small  all others must be healthy
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
    """Both shares as a limit has them; `small_pool` is the size up to which a group is small."""
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
