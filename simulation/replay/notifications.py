"""Notifications that a simulated job would send: recipients and the sentence. Pure.

The receivers file of a cluster is not known here. Each receiver that a rule names counts as one
with the default settings, which gets the phases that wait for a person or failed.
"""

from collections.abc import Iterator
from datetime import datetime

from remedy.job.model import Job
from remedy.job.notices import step_text
from remedy.notify.notice import STEP, JobNotice, level, of_phase, of_step
from remedy.notify.settings import Receiver
from remedy.notify.teller import hearers
from simulation.replay.records import SentNotification

DEFAULT_RECEIVER = Receiver.model_construct()


def phase_notifications(before: Job, after: Job, now: datetime) -> Iterator[SentNotification]:
    """Yield the notification about a new phase of the job, if its rule names receivers."""
    if level(before) == level(after):
        return
    receivers = dict.fromkeys(after.spec.notify, DEFAULT_RECEIVER)
    if names := hearers(after, receivers, now):
        yield _sent(of_phase(after, now), names)


def step_notification(job: Job, now: datetime) -> SentNotification:
    """Return the notification of the job's current step `notify`."""
    notify = job.step.notify if job.step is not None else None
    return _sent(of_step(job, step_text(job), now), notify.receivers if notify else [])


def _sent(notice: JobNotice, names: list[str]) -> SentNotification:
    on = "notify" if notice.kind == STEP else notice.kind
    return SentNotification(on, tuple(names), notice.happened, notice.at)
