"""The rule engine behind one worker thread.

The engines are synchronous and may block up to their timeouts. One thread
serves loads and evaluations in the order they come, so a program never changes under a question.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.runtime.clock import Clock
from rules.diagnose import Diagnoser, Diagnosis, LoadReport
from rules.engines.disputes import DisputeRecord
from rules.facts import FactSet
from rules.lint import LintSeverity, lint
from rules.program import RuleVersion


class RuleEngineThread:
    """`close` ends the thread after what is under way, and the second engine with it."""

    def __init__(self, diagnoser: Diagnoser, clock: Clock) -> None:
        self._diagnoser = diagnoser
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rules")

    async def faults(self, rules: Sequence[NodeRemedier]) -> dict[str, str]:
        """What keeps single rules from being loaded although they compile, by name."""
        return await asyncio.get_running_loop().run_in_executor(None, lint_errors, rules)

    async def load(self, rules: Sequence[RuleVersion]) -> LoadReport:
        """Replace the program. Rules that do not compile are in the report, the rest is live."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._diagnoser.load, rules)

    async def diagnose(self, factsets: list[FactSet]) -> list[Diagnosis]:
        loop = asyncio.get_running_loop()
        now = self._clock.now()
        return await loop.run_in_executor(self._thread, self._diagnoser.diagnose, factsets, now)

    async def quarantine(self, rules: Mapping[str, str]) -> None:
        """Rules that may not act, by id with why, as if the engines had differed just now."""
        check = self._diagnoser.check
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, check.quarantined.update, dict(rules))

    async def release(self, rules: Collection[str]) -> None:
        """Let rules act again, by id, until the engines differ about them once more."""

        def work() -> None:
            for id_ in rules:
                self._diagnoser.check.release(id_)

        await asyncio.get_running_loop().run_in_executor(self._thread, work)

    @property
    def quarantined(self) -> Mapping[str, str]:
        """Rule id to why its matches may not act. Grows between loads, when the engines differ."""
        return dict(self._diagnoser.check.quarantined)

    def dispute(self, rule: str) -> DisputeRecord | None:
        """What the engines last differed about, of the rule of this id; None for nothing."""
        return self._diagnoser.check.disputes.get(rule)

    @property
    def trouble(self) -> str:
        """Why the second engine gives no answers, "" while it does."""
        return self._diagnoser.check.trouble

    def close(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._diagnoser.close()


def lint_errors(rules: Sequence[NodeRemedier]) -> dict[str, str]:
    """By name, what lint refuses to have loaded: the same that the webhook refuses. Pure."""
    found: dict[str, list[str]] = {}
    for one in lint(rules):
        if one.severity is LintSeverity.ERROR:
            found.setdefault(one.rule, []).append(f"{one.path}: {one.message} ({one.code})")
    return {name: "; ".join(errors[:8]) for name, errors in found.items()}
