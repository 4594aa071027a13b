"""How long to wait until the next try, the longer the longer it was waited so far. Pure."""

from datetime import timedelta

SOON, LATE = timedelta(seconds=5), timedelta(minutes=1)


def patience(waited: timedelta) -> timedelta:
    """A quarter of the time waited so far, within SOON and LATE."""
    return min(max(waited / 4, SOON), LATE)
