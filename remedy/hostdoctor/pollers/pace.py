"""Computes when a source is read again after a failure. Pure."""

from datetime import timedelta

from kubenode.providers.errors import ProviderError, Throttled

LONGEST = timedelta(minutes=15)
"""Longest pause after failures, unless the source's own interval is longer."""
FIRST = timedelta(seconds=5)
"""Pause after a first failure; it doubles with each further one."""


def after_failure(failures: int, every: timedelta, error: Exception) -> timedelta:
    """Return the pause after `failures` in a row, including this one. The delay that a source asks
    for is respected, up to an hour.
    """
    longer: int = 2 ** min(failures - 1, 16)
    wait = min(FIRST * longer, max(every, LONGEST))
    if isinstance(error, Throttled) and error.after is not None:
        wait = max(wait, min(error.after, timedelta(hours=1)))
    return wait


def reason(error: Exception) -> str:
    """Return the error in the source's own words."""
    return error.message if isinstance(error, ProviderError) else str(error)
