"""Runs the rule engines in one worker thread.

The engines are synchronous and may block up to their timeouts. One thread serves loads and
evaluations in the order in which they come, so a program never changes during an evaluation.
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
    """The worker thread. `close` ends it after the current call, and the second engine with it."""

    def __init__(self, diagnoser: Diagnoser, clock: Clock) -> None:
        self._diagnoser = diagnoser
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rules")

    async def faults(self, rules: Sequence[NodeRemedier]) -> dict[str, str]:
        """Return lint errors that keep compilable rules from being loaded, by name."""
        return await asyncio.get_running_loop().run_in_executor(None, lint_errors, rules)

    async def load(self, rules: Sequence[RuleVersion]) -> LoadReport:
        """Replace the program. Rules that do not compile are in the report, the others
        are active.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._diagnoser.load, rules)

    async def diagnose(self, factsets: list[FactSet]) -> list[Diagnosis]:
        loop = asyncio.get_running_loop()
        now = self._clock.now()
        return await loop.run_in_executor(self._thread, self._diagnoser.diagnose, factsets, now)

    async def quarantine(self, rules: Mapping[str, str]) -> None:
        """Stop rules from acting, by id with the reason, as if the engines had just disagreed."""
        check = self._diagnoser.check
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, check.quarantined.update, dict(rules))

    async def release(self, rules: Collection[str]) -> None:
        """Let rules act again, by id, until the engines disagree about them once more."""

        def work() -> None:
            for id_ in rules:
                self._diagnoser.check.release(id_)

        await asyncio.get_running_loop().run_in_executor(self._thread, work)

    @property
    def quarantined(self) -> Mapping[str, str]:
        """Why the matches of a rule may not act, by rule id. Grows between loads, when the engines
        disagree.
        """
        return dict(self._diagnoser.check.quarantined)

    def dispute(self, rule: str) -> DisputeRecord | None:
        """Return the last disagreement about the rule of this id; None for none."""
        return self._diagnoser.check.disputes.get(rule)

    @property
    def trouble(self) -> str:
        """Why the second engine gives no answers, "" while it does."""
        return self._diagnoser.check.trouble

    def close(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._diagnoser.close()


def lint_errors(rules: Sequence[NodeRemedier]) -> dict[str, str]:
    """Return by name the lint errors that prevent a load, the same ones that the webhook rejects.
    Pure.
    """
    by_rule: dict[str, list[str]] = {}
    for finding in lint(rules):
        if finding.severity is LintSeverity.ERROR:
            by_rule.setdefault(finding.rule, []).append(
                f"{finding.path}: {finding.message} ({finding.code})"
            )
    return {name: "; ".join(errors[:8]) for name, errors in by_rule.items()}
