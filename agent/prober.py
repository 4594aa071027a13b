"""Answers HostProbes of this agent, each once, while somebody may still want the answer.

Apart from the worker that repairs: a question must not wait for a restart of two minutes, and its
answer may be what a repair waits for.
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
"""Asked about this host, and answered by its provider or the operator."""
PEERS = "peers"
"""About this host it is answered by others; with an address it asks us about another host."""
DIAGNOSTICS = "diagnostics"
AT_ONCE = 4
"""The operator keeps no more questions about one node open."""
ANSWER_SECONDS = 20.0
BUNDLE_SECONDS = 150.0
"""To collect diagnostics and hand them to the operator."""
RETRY_HIGH = 10.0
LONGEST_TEXT = 1024
"""Bytes of an error and of a text in an answer. The CRD accepts as many characters."""
MOST_FIELDS = 64
"""Of an answer; the CRD accepts no more."""


class Prober:
    """A Part. `observe_probe` takes the newest state of each HostProbe that names the agent."""

    name = "prober"

    def __init__(
        self,
        kube: Kube,
        probes: Probes,
        agent: str,
        clock: Clock,
        server_now: Callable[[], datetime | None] = lambda: None,
    ) -> None:
        """server_now: what time it is at the API server, None: not known."""
        self._kube, self._probes, self._agent, self._clock = kube, probes, agent, clock
        self._server_now = server_now
        self._pending: dict[str, Probe] = {}
        self._queue: WorkQueue[str] = WorkQueue(clock, high=RETRY_HIGH)

    def observe_probe(self, name: str, probe: Probe | None) -> None:
        """None when it is gone. Never blocks."""
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
        """By the API server's clock where it is known: the host's may be wrong by hours."""
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
        """Raises KubeError: then it is asked and answered again."""
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
            return  # nobody wants to know any more
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
    """`answer` within the limits of the CRD: a larger one would be refused at every retry."""
    fields = list(answer.items())[:MOST_FIELDS]
    return {
        name: cut(value, LONGEST_TEXT) if isinstance(value, str) else value
        for name, value in fields
    }
