"""Everything that notifies people and other programs, as the operator uses it: queues, direct
calls, steps.
"""

import logging
from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry

from kubenode.api.v1alpha1.ladder import OnFailure
from kubenode.runtime.clock import Clock
from kubenode.runtime.process import forever
from remedy.job.model import Job
from remedy.notify.direct import DirectNotifier
from remedy.notify.notice import of_step
from remedy.notify.notifier import Notifier
from remedy.notify.settings import Receiver

log = logging.getLogger(__name__)

MOST_STRANGERS = 1000
STILL = "the receivers have not taken it yet"


class Telling:
    """A Part of the ground ring: it closes connections after all parts that notify have ended."""

    name = "receivers"

    def __init__(
        self,
        receivers: Mapping[str, Receiver],
        clock: Clock,
        registry: CollectorRegistry,
        cluster: str = "",
        insight_url: str = "",
    ) -> None:
        self.receivers, self._clock = receivers, clock
        self.notifier = Notifier(receivers, clock, registry, cluster, insight_url)
        self.direct = DirectNotifier(receivers, cluster, insight_url)
        self._strangers: set[str] = set()

    async def run(self) -> None:
        try:
            await forever()
        finally:
            await self.notifier.close()
            await self.direct.close()

    def step(self, job: Job, text: str = "") -> str:
        """Send the notification of a step `notify`; return "" when the step is done, else why it
        still waits. text: the message; "" for that of the step.

        A step waits for receivers only if its `onFailure` is not Continue; otherwise it queues the
        notification and ends.
        """
        body = job.step.notify if job.step is not None else None
        if body is None or not body.receivers or not self.receivers:
            return ""
        notice = of_step(job, text or body.message, self._clock.now())
        strangers = self.meet(job, body.receivers)
        self.notifier.put(notice, [name for name in body.receivers if name not in strangers])
        if body.on_failure is OnFailure.CONTINUE:
            return ""
        if strangers:
            return f"receivers {', '.join(strangers)} are not in the receivers file: add them there"
        ends = [self.notifier.end(notice.id, name) for name in body.receivers]
        if any(end is None for end in ends):
            return STILL
        return "; ".join(
            f"{end.receiver}: {end.why}" for end in ends if end is not None and end.why
        )

    def meet(self, job: Job, names: Iterable[str]) -> list[str]:
        """Return the names that the settings do not know; log each once, since the rule must be
        corrected.
        """
        strangers = sorted({name for name in names if name not in self.receivers})
        new = [name for name in strangers if name not in self._strangers]
        if new and self.receivers and len(self._strangers) < MOST_STRANGERS:
            self._strangers.update(new)
            rule = job.spec.remedier.name if job.spec.remedier is not None else ""
            log.warning("receivers are not set up", extra={"receivers": new, "rule": rule})
        return strangers
