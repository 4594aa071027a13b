"""Runs the rules of a custom-plugin monitor periodically and reports their results."""

import asyncio
import logging
import os
from pathlib import Path

from agent.detectors import ConditionReport, EventReport, EventSeverity, Sink
from agent.detectors.checks import CANNOT_RUN, Finding
from agent.detectors.checks.detector import Turns
from agent.detectors.checks.npd.builtin import BuiltIns
from agent.detectors.checks.npd.config import PluginMonitorConfig, PluginRule, RuleType
from agent.detectors.checks.npd.protocol import PluginResult, Word, judge, read
from agent.detectors.checks.programs import DEFAULT_OUTPUT_BYTES, Programs, Ran, Runner
from agent.detectors.checks.steady import SteadyFinding
from agent.host.files import OWN_FILES, HostRoot, resolve_links

log = logging.getLogger(__name__)


class PluginMonitor:
    """Implements agent.detectors.Detector for one file."""

    def __init__(
        self,
        monitor: PluginMonitorConfig,
        turns: Turns,
        builtins: BuiltIns,
        programs: Runner | None = None,
        files: HostRoot = OWN_FILES,
    ) -> None:
        self.name = monitor.name
        self.conditions = tuple(condition.type for condition in monitor.conditions)
        self._monitor, self._turns, self._builtins = monitor, turns, builtins
        self._programs, self._files = programs or Programs(), files
        self._places = asyncio.Semaphore(monitor.at_once)
        self._results: dict[int, PluginResult] = {}
        self._reported: dict[str, Finding] = {}

    async def run(self, sink: Sink) -> None:
        if not self._monitor.silent_start:
            for kind in self.conditions:
                self._tell(sink, kind, SteadyFinding().last)
        while True:
            await self.round(sink)
            await self._turns.clock.sleep(self._turns.pause(self._monitor.every))

    async def round(self, sink: Sink) -> None:
        """Run every rule once. Never raises except when cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(len(self._monitor.rules)):
                tasks.create_task(self._rule(sink, number))

    async def _rule(self, sink: Sink, number: int) -> None:
        rule = self._monitor.rules[number]
        async with self._places:
            ran = await self._turns.take(lambda: self._ask(rule))
        before = self._results.get(number)
        result = read(ran, self._monitor.most_output)
        self._results[number] = result
        if result.word is Word.BROKEN and result != before:
            why = f"{self._monitor.file}: rule {rule.reason}: {rule.path}: {result.output}"
            self._event(sink, CANNOT_RUN, why)
            log.warning("a check of this host is broken", extra={"check": self.name, "why": why})
        if rule.type is RuleType.TEMPORARY and result.word is Word.FAULT:
            self._event(sink, rule.reason, result.output)
        if rule.type is RuleType.PERMANENT:
            self._judge(sink, rule.condition)

    async def _ask(self, rule: PluginRule) -> Ran:
        limit = self._monitor.limit(rule)
        try:
            if (own := self._builtins.find(rule.path, rule.args)) is not None:
                async with asyncio.timeout(limit):
                    return await own()
            argv = [program(rule.path, self._monitor.file, self._files), *rule.args]
            return await self._programs.run(
                argv, limit, max(DEFAULT_OUTPUT_BYTES, self._monitor.most_output)
            )
        except TimeoutError:
            return Ran(None, why=f"no result within {limit:g} s")
        except Exception as error:  # noqa: BLE001  one broken check must not end the agent
            return Ran(None, why=f"{type(error).__name__}: {error}")

    def _judge(self, sink: Sink, kind: str) -> None:
        condition = next(c for c in self._monitor.conditions if c.type == kind)
        rule_numbers = [
            number
            for number, rule in enumerate(self._monitor.rules)
            if rule.type is RuleType.PERMANENT and rule.condition == kind
        ]
        results = [
            (self._monitor.rules[number], self._results[number])
            for number in rule_numbers
            if number in self._results
        ]
        finding, before = judge(condition, results), self._reported.get(kind)
        if not finding.faulty and len(results) < len(rule_numbers):
            return  # anything but a fault needs the results of all rules
        same = before and (before.faulty, before.reason) == (finding.faulty, finding.reason)
        if before and same and not self._monitor.follow_message:
            finding = before
        self._tell(sink, kind, finding)

    def _tell(self, sink: Sink, kind: str, finding: Finding) -> None:
        self._reported[kind] = finding
        status = SteadyFinding(finding).status
        now = self._turns.clock.now()
        sink.report(ConditionReport(kind, status, finding.reason, finding.message, now, self.name))

    def _event(self, sink: Sink, reason: str, message: str) -> None:
        now = self._turns.clock.now()
        sink.report(EventReport(reason, message, EventSeverity.WARNING, now, self.name))


def program(path: str, file: str, files: HostRoot = OWN_FILES) -> str:
    """Return the host's path of a rule's program.

    A relative path is searched as in node-problem-detector's image (from /), then beside the
    configuration's folder (as in its own `config/plugin/...`), then in it.
    """
    if os.path.isabs(path):
        return path
    folder = os.path.dirname(resolve_links(Path(files.root), os.path.abspath(file)))
    bases = ("/", os.path.dirname(folder), folder)
    places = [os.path.normpath(os.path.join(base, path)) for base in bases]
    return next((place for place in places if files.exists(place)), places[0])
