"""Imports one host: probes it, installs the agent, and waits until its Machine is Running.

Nothing is stored between two runs. The next step is derived from the Machine and the host each
time, so an interrupted import continues when it is run again.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum

from kubenode.api.v1alpha1 import Machine
from kubenode.cli.exits import Refusal
from kubenode.cli.machine_host import ImportHost
from kubenode.cli.machine_import_cluster import Cluster, made
from kubenode.cli.machine_import_package import AgentPackage, package_for
from kubenode.cli.machine_import_rows import ImportRow
from kubenode.cli.machine_ssh import Remote
from kubenode.cli.machine_tokens import live_token, refusals
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError
from kubenode.runtime.kube.paths import custom
from machine.access import PLURAL
from machine.bootstrap.controller import need_of
from machine.bootstrap.step import Need
from machine.hostimport.join_settings import Download, Joining
from machine.hostimport.preflight import ImportTarget, Level, findings
from machine.hostimport.probe import HostFacts
from machine.hostimport.script import join_script
from machine.hostimport.steps import ImportStep, Name, StepMark, missing, steps

POLL_SECONDS = 1.0
TOKEN_SECONDS = 60.0
"""Timeout for the token of a new Machine: many Machines may be created at the same time."""
FAILED_SECONDS = 60.0
"""Time for which a failed step must stay failed. It may be left from an earlier attempt, and the
agent retries within about a minute.
"""
OWN_STEPS = (Name.MACHINE, Name.TOKEN, Name.AGENT)
"""Acts of this program itself, which are reported when they happen and not from the Machine's
status.
"""

Reach = Callable[[ImportRow], AbstractAsyncContextManager[Remote]]
Tell = Callable[[str], None]


class ImportResult(StrEnum):
    """How an import ended.

    After REFUSED nothing was changed; run FAILED and TIMED_OUT ones again.
    """

    RUNNING = "Running"
    REFUSED = "Refused"
    FAILED = "Failed"
    TIMED_OUT = "TimedOut"


@dataclass(frozen=True, slots=True)
class ImportOutcome:
    """The result for one host.

    step: the step at which the import ended.
    why: what is missing there.
    findings: findings of the preflight.
    """

    host: str
    machine: str
    result: ImportResult
    step: str = ""
    why: str = ""
    findings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        return {
            "host": self.host,
            "machine": self.machine,
            "result": str(self.result),
            "step": self.step,
            "why": self.why,
            "findings": list(self.findings),
        }


@dataclass(frozen=True, slots=True)
class Importer:
    """Imports hosts, one call of `run` for each.

    packages: packages to choose from for each host; () if the host uses `download`.
    seconds: timeout from the end of the preflight to Running, for each host.
    """

    kube: Kube
    cluster: Cluster
    reach: Reach
    tell: Tell
    packages: tuple[AgentPackage, ...] = ()
    download: Download = field(default_factory=Download)
    seconds: float = 1200.0

    async def run(self, row: ImportRow) -> ImportOutcome:
        """Import a host. Problems of the host or its Machine are in the result and never raise."""
        messages: list[str] = []
        try:
            async with self.reach(row) as remote:
                return await self._import(
                    row, ImportHost(remote, row.host, self.kube.clock), messages
                )
        except (Refusal, KubeError) as error:
            return ImportOutcome(
                row.host, row.machine_name, ImportResult.FAILED, "", str(error), tuple(messages)
            )

    async def _import(self, row: ImportRow, host: ImportHost, messages: list[str]) -> ImportOutcome:
        name = row.machine_name
        facts, offset = await host.probe(self.cluster.server, self.cluster.ca)
        preflight = findings(facts, self._wanted(row), offset)
        for finding in preflight:
            messages.append(str(finding))
            self._say(name, f"{finding.level.lower()}: {finding}")
        if refused := [finding for finding in preflight if finding.level is Level.REFUSED]:
            why = "; ".join(map(str, refused))
            return ImportOutcome(
                row.host, name, ImportResult.REFUSED, "preflight", why, tuple(messages)
            )
        self._say(name, "preflight: done")
        with refusals(name):
            machine, new = await made(self.kube, row)
            self._say(name, "Machine: made" if new else "Machine: there already, it goes on")
            installed = await self._let_in(machine, host, facts)
            outcome = await self._follow(row, host, installed)
        return ImportOutcome(
            row.host, name, outcome.result, outcome.step, outcome.why, tuple(messages)
        )

    def _wanted(self, row: ImportRow) -> ImportTarget:
        name = row.machine_name
        return ImportTarget(
            machine=name,
            node=row.node_name or name,
            expects_node=row.node != "None",
            joins_by_token=row.node == "Join",
            server=self.cluster.server,
            packages=tuple((package.format, package.architecture) for package in self.packages),
            fetches=bool(self.download.url),
        )

    async def _let_in(self, machine: Machine, host: ImportHost, facts: HostFacts) -> bool:
        """Install the agent if it may still join. Return whether it was installed now."""
        name = machine.metadata.name
        if need_of(machine, joined=False) is not Need.WANTED:
            return False
        stored = await live_token(self.kube, name, self.kube.clock, TOKEN_SECONDS)
        self._say(name, "token: made")
        package = package_for(self.packages, facts.format, facts.arch)
        if package is not None and facts.package == package.version:
            package = None
        script = join_script(self.joining(machine), self.download)
        output = await host.join(script, stored.text, package)
        self._say(name, f"agent: {output.removeprefix('kubenode: ')}")
        return True

    def joining(self, machine: Machine) -> Joining:
        cluster = self.cluster
        return Joining(machine.metadata.name, machine.node_name, cluster.server, cluster.ca)

    async def _follow(self, row: ImportRow, host: ImportHost, installed: bool) -> ImportOutcome:
        name, clock = row.machine_name, self.kube.clock
        shown: dict[Name, ImportStep] = {}
        end, bad_since = clock.monotonic() + self.seconds, None
        while True:
            machine = await self.kube.get(custom(PLURAL, name), Machine.from_server)
            progress = steps(machine, clock.now(), installed=installed)
            self._show(name, progress, shown)
            last_use = Name.NODE if machine.joins_by_token else Name.LEASE
            if installed and any(step.name is last_use and step.is_finished for step in progress):
                installed = False
                await self._forget_token(name, host)
            gap, now = missing(progress), clock.monotonic()
            if gap is None:
                return ImportOutcome(row.host, name, ImportResult.RUNNING)
            bad_since = (bad_since or now) if gap.mark is StepMark.FAILED else None
            if bad_since is not None and now - bad_since >= FAILED_SECONDS:
                return ImportOutcome(row.host, name, ImportResult.FAILED, gap.name, gap.why)
            if now >= end:
                return ImportOutcome(row.host, name, ImportResult.TIMED_OUT, gap.name, gap.why)
            await clock.sleep(POLL_SECONDS)

    async def _forget_token(self, name: str, host: ImportHost) -> None:
        """Remove the used token, which is already revoked.

        A file that remains is no reason to fail.
        """
        try:
            await host.forget_token()
        except Refusal as error:
            self._say(name, f"warning: the used token stays on the host: {error}")

    def _show(self, name: str, progress: list[ImportStep], shown: dict[Name, ImportStep]) -> None:
        """Report each step that changed; of the unfinished steps only the first."""
        gap = missing(progress)
        for step in progress:
            turn = step.name not in OWN_STEPS and (step.is_finished or step is gap)
            if turn and step != shown.get(step.name):
                shown[step.name] = step
                self._say(name, f"{step.name}: {_describe_step(step)}")

    def _say(self, name: str, text: str) -> None:
        self.tell(f"{name}: {text}")


def _describe_step(step: ImportStep) -> str:
    match step.mark:
        case StepMark.DONE:
            return f"done, {step.why}" if step.why else "done"
        case StepMark.SKIPPED:
            return f"none, {step.why}"
        case StepMark.WAITING:
            return f"waiting, {step.why}"
        case StepMark.FAILED:
            return f"failed, {step.why}"


async def import_all(
    importer: Importer, rows: Sequence[ImportRow], at_once: int
) -> list[ImportOutcome]:
    """Import the hosts and return the results in the order of `rows`.

    A failure stops no other host.

    at_once: hosts at the same time.
    """
    gate = asyncio.Semaphore(at_once)

    async def import_host(row: ImportRow) -> ImportOutcome:
        async with gate:
            return await importer.run(row)

    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(import_host(row)) for row in rows]
    return [task.result() for task in running]
