"""A backoff that grows with the time waited so far. Pure."""

from datetime import timedelta

SOON, LATE = timedelta(seconds=5), timedelta(minutes=1)


def patience(waited: timedelta) -> timedelta:
    """Return a quarter of the time waited so far, within SOON and LATE."""
    return min(max(waited / 4, SOON), LATE)
