"""When a source is looked at next. Pure."""

from datetime import timedelta

from kubenode.providers.errors import ProviderError, Throttled

LONGEST = timedelta(minutes=15)
FIRST = timedelta(seconds=5)
"""After a first failure; twice as long after each further one."""


def after_failure(failures: int, every: timedelta, error: Exception) -> timedelta:
    """`failures` in a row, this one counted. One that says when to come again is believed."""
    longer: int = 2 ** min(failures - 1, 16)
    wait = min(FIRST * longer, max(every, LONGEST))
    if isinstance(error, Throttled) and error.after is not None:
        wait = max(wait, min(error.after, timedelta(hours=1)))
    return wait


def reason(error: Exception) -> str:
    """The error in the source's own words."""
    return error.told if isinstance(error, ProviderError) else str(error)
