"""Answers HostProbes of this agent, each once, before they expire.

It works apart from the worker for repairs: a probe must not wait for a long repair, and a repair
may depend on its answer.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime

from agent.nodestatus.board import cut
from agent.probes import Answer, CannotAnswer, Probes, Value
from agent.wire import Probe, format_time
from kubenode.runtime.clock import Clock
from kubenode.runtime.controller.queue import WorkQueue
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError, NotFound
from kubenode.runtime.kube.paths import custom

log = logging.getLogger(__name__)

PLURAL = "hostprobes"
FOR_OTHERS = frozenset({"power", "ready"})
"""Probes about this host that its provider or the operator answers."""
PEERS = "peers"
"""With an address it asks this agent about another host; without one, peers answer it."""
DIAGNOSTICS = "diagnostics"
AT_ONCE = 4
"""The operator keeps at most this many probes about one node open."""
ANSWER_SECONDS = 20.0
BUNDLE_SECONDS = 150.0
"""Longest time to collect diagnostics and upload them to the operator."""
RETRY_HIGH = 10.0
LONGEST_TEXT = 1024
"""Bytes of an error or a text in an answer. The CRD accepts as many characters."""
MOST_FIELDS = 64
"""Most fields of an answer. The CRD accepts no more."""


class Prober:
    """Part: answers HostProbes. `observe_probe` takes the newest state of each one for the
    agent.
    """

    name = "prober"

    def __init__(
        self,
        kube: Kube,
        probes: Probes,
        agent: str,
        clock: Clock,
        server_now: Callable[[], datetime | None] = lambda: None,
    ) -> None:
        """server_now: returns the time of the API server's clock; None: unknown."""
        self._kube, self._probes, self._agent, self._clock = kube, probes, agent, clock
        self._server_now = server_now
        self._pending: dict[str, Probe] = {}
        self._queue: WorkQueue[str] = WorkQueue(clock, high=RETRY_HIGH)

    def observe_probe(self, name: str, probe: Probe | None) -> None:
        """Take the newest state of a probe; None if it was deleted. Never blocks."""
        if probe is None or not self._open(probe):
            self._pending.pop(name, None)
            return
        self._pending[name] = probe
        self._queue.add(name)

    def _open(self, probe: Probe) -> bool:
        answered = probe.status is not None and probe.status.answered_at is not None
        mine = probe.spec.agent == self._agent and probe.spec.name not in FOR_OTHERS
        if probe.spec.name == PEERS:
            mine = mine and "address" in (probe.spec.args or {})
        return mine and not answered and self._now() < probe.spec.expires_at

    def _now(self) -> datetime:
        """Return the API server's time if it is known, because the host's clock may be hours
        off.
        """
        return self._server_now() or self._clock.now()

    async def run(self) -> None:
        slots = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._queue.run())
            while True:
                await slots.acquire()
                name = await self._queue.get()
                tasks.create_task(self._handle_probe(name)).add_done_callback(
                    lambda _: slots.release()
                )

    async def _handle_probe(self, name: str) -> None:
        try:
            probe = self._pending.get(name)
            if probe is not None and self._open(probe):
                await self._answer(probe)
            self._pending.pop(name, None)
            self._queue.forget(name)
        except KubeError as error:
            self._queue.retry(name, at_least=error.retry_after or 0.0)
            log.info("an answer waits for the API server", extra={"probe": name})
        finally:
            self._queue.done(name)

    async def _answer(self, probe: Probe) -> None:
        """Answer the probe. Raises KubeError: then it is answered again."""
        answer, error = await self._collect_answer(probe)
        status = {
            "answer": bounded(answer),
            "answeredAt": format_time(self._now()),
            "error": cut(error, LONGEST_TEXT),
        }
        try:
            await self._kube.patch(
                custom(PLURAL, probe.metadata.name, "status"), {"status": status}
            )
        except NotFound:
            return  # the probe was deleted
        log.info(
            "answered a question",
            extra={"probe": probe.metadata.name, "about": probe.spec.name, "error": error},
        )

    async def _collect_answer(self, probe: Probe) -> tuple[Answer, str]:
        remaining = probe.spec.expires_at - self._now()
        longest = BUNDLE_SECONDS if probe.spec.name == DIAGNOSTICS else ANSWER_SECONDS
        seconds = min(remaining.total_seconds(), longest)
        try:
            async with asyncio.timeout(seconds):
                return await self._probes.answer(probe.spec.name, probe.spec.args or {}), ""
        except CannotAnswer as error:
            return {}, str(error)
        except TimeoutError:
            return {}, f"{probe.spec.name}: no answer within {seconds:.0f} s"


def bounded(answer: Answer) -> dict[str, Value]:
    """Shorten `answer` to the limits of the CRD, which would refuse a larger one at every retry."""
    fields = list(answer.items())[:MOST_FIELDS]
    return {
        name: cut(value, LONGEST_TEXT) if isinstance(value, str) else value
        for name, value in fields
    }
