"""The rule engine behind one worker thread.

The engines are synchronous and may block up to their timeouts (engine.md section 1). One thread
serves loads and evaluations in the order they come, so a program never changes under a question.
"""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from kubenode.runtime.clock import Clock
from rules.diagnose import Diagnoser, Diagnosis, LoadReport
from rules.facts import FactSet
from rules.program import Rule


class Engine:
    """`close` ends the thread after what is under way, and the second engine with it."""

    def __init__(self, diagnoser: Diagnoser, clock: Clock) -> None:
        self._diagnoser = diagnoser
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rules")

    async def load(self, rules: Sequence[Rule]) -> LoadReport:
        """Replace the program. Rules that do not compile are in the report, the rest is live."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._diagnoser.load, rules)

    async def diagnose(self, factsets: list[FactSet]) -> list[Diagnosis]:
        loop = asyncio.get_running_loop()
        now = self._clock.now()
        return await loop.run_in_executor(self._thread, self._diagnoser.diagnose, factsets, now)

    @property
    def quarantined(self) -> Mapping[str, str]:
        """Rule id to why its matches may not act. Grows between loads, when the engines differ."""
        return dict(self._diagnoser.check.quarantined)

    @property
    def trouble(self) -> str:
        """Why the second engine gives no answers, "" while it does."""
        return self._diagnoser.check.trouble

    def close(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._diagnoser.close()
