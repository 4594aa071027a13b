"""Determines when an Event occurred, by our clock. Pure.

Its reporter uses the host's clock, which may be wrong by hours. Two times come from a right clock:
the API server's creationTimestamp, at which the Event occurred for the first time, and the moment
at which we see the Event change. The difference between two timestamps of the reporter is right
too.
"""

from datetime import datetime, timedelta

from kubenode.runtime.hosttime import HostTime, as_written
from kubenode.runtime.kube.objects import Event


def occurrences(
    event: Event, now: datetime, live: bool = False
) -> tuple[datetime | None, datetime]:
    """Return the first and the last occurrence; the first is None if unknown.

    live: we just saw it occur once more. Otherwise an Event seen for the first time, as after a
        restart, is no younger than its timestamps allow and no older than its object
    """
    first, last = event.first_timestamp or event.event_time, _last(event)
    span = max(last - first, timedelta(0)) if first is not None and last is not None else None
    at = now if live else min(_last_time(event, last, span, now), now)
    return None if span is None else at - span, at


def _last(event: Event) -> HostTime | None:
    observed = event.series.last_observed_time if event.series else None
    times = [t for t in (observed, event.last_timestamp, event.event_time) if t is not None]
    return max(times, default=event.first_timestamp)


def _last_time(
    event: Event, last: HostTime | None, span: timedelta | None, now: datetime
) -> datetime:
    made = event.metadata.creation_timestamp
    if made is None:
        return now if last is None else as_written(last)
    if last is None:
        return made
    at = max(as_written(last), made)
    return at if span is None else min(at, made + span)
