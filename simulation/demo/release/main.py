"""Runs the scenario: four embedded API servers, Captain, and three members with KubeNode.

The clusters stay after the last release with --for, and on a terminal without --json, so that a
person can try the commands. Otherwise the demo ends with it.
"""

import asyncio
import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.cli.cluster import require_engine
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.member_app import MEMBERS_NAMESPACE
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.process import Part, serve
from kubenode.runtime.telemetry import logging as logs
from simulation.demo.release.clusters import (
    DemoCluster,
    DemoPrograms,
    create_namespace,
    import_member,
    make_certificate,
    prepare_member,
    run_captain,
    run_cluster,
    run_member_programs,
)
from simulation.demo.release.observer import ReleaseObserver
from simulation.demo.release.payload import BAD, GOOD, MEMBERS
from simulation.demo.release.report import describe, summarize
from simulation.demo.release.story import ReleaseStory
from simulation.demo.run_length import read_seconds
from simulation.demo.scenarios import RELEASE
from simulation.demo.signals import INTERRUPTED, leave_in_time, run_until_stopped

CAPTAIN = "captain"


@dataclass(frozen=True, slots=True)
class ReleaseDemoOptions:
    """The options of a run.

    lasts: seconds; None for no limit.
    port: of the API server of Captain's cluster; 0 for a free one.
    stays: whether the clusters stay after the last release.
    """

    lasts: float | None
    json: bool
    port: int
    stays: bool

    @classmethod
    def of(cls, others: Mapping[str, object], *, lasts: str | None, json: bool, port: int) -> Self:
        """Parse the command line. others: flags without an effect in this scenario.

        Raises Refusal.
        """
        if given := [flag for flag, value in others.items() if value is not None]:
            text = f"{given[0]}: the scenario {RELEASE} has no simulated nodes or faults; omit it"
            raise Refusal(text, Exit.USAGE)
        seconds = read_seconds(lasts)
        stays = seconds is not None or (sys.stdout.isatty() and not json)
        return cls(seconds, json, port, stays)


def run_release_demo(options: ReleaseDemoOptions) -> None:
    """Run until stopped, and print the summary. Raises SystemExit(130) without one."""
    require_engine()
    logs.setup("error")
    demo = ReleaseDemo(options)
    asyncio.run(demo.run())
    if not demo.summarized:
        raise SystemExit(INTERRUPTED)


class ReleaseDemo:
    """One run of the scenario. summarized: whether the summary has been printed."""

    def __init__(self, options: ReleaseDemoOptions) -> None:
        self._options, self._clock = options, SystemClock()
        self._began = self._clock.monotonic()
        self._observer = ReleaseObserver(tuple(MEMBERS), (GOOD, BAD))
        self._story: ReleaseStory | None = None
        self._folder: Path | None = None
        self._ending = self.summarized = False

    async def run(self) -> None:
        """Run until a signal, the end of the time, or of the story. Raises the error of a part."""
        await run_until_stopped(self._work(), self._end, self._options.lasts)

    def _end(self) -> None:
        """Print the summary, and ensure that the process ends even if a part does not."""
        if self._ending:
            return
        self._ending = True
        self._summarize()
        leave_in_time(self._leave)

    def _leave(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        os._exit(0 if self.summarized else INTERRUPTED)

    async def _work(self) -> None:
        with tempfile.TemporaryDirectory(prefix="kubenode-demo-") as folder:
            self._folder = Path(folder)
            async with self._clusters(self._folder) as (captain, members):
                await self._prepare(captain, members)
                await self._serve(captain, members)

    @contextlib.asynccontextmanager
    async def _clusters(
        self, folder: Path
    ) -> AsyncIterator[tuple[DemoCluster, Mapping[str, DemoCluster]]]:
        """Yield the cluster of Captain, and the members by stage."""
        tls = await make_certificate(folder, self._clock)
        async with contextlib.AsyncExitStack() as stack:
            run = partial(run_cluster, folder=folder, tls=tls, clock=self._clock)
            captain = await stack.enter_async_context(run(CAPTAIN, port=self._options.port))
            members = {
                stage: await stack.enter_async_context(run(name)) for stage, name in MEMBERS.items()
            }
            yield captain, members

    async def _prepare(self, captain: DemoCluster, members: Mapping[str, DemoCluster]) -> None:
        self._say(f"{len(members) + 1} API servers: one for Captain, and one for each member")
        for namespace in ("kubenode-system", MEMBERS_NAMESPACE):
            await create_namespace(captain.eyes, namespace)
        for stage, member in members.items():
            await prepare_member(member)
            await import_member(captain.eyes, member, stage)
        self._say(f"Captain's cluster: kubectl --kubeconfig {captain.kubeconfig} get knrl,knmb")
        for stage, member in members.items():
            self._say(f"  {stage:<10} {member.kubeconfig}")

    async def _serve(self, captain: DemoCluster, members: Mapping[str, DemoCluster]) -> None:
        """Run everything until the story has ended, or until cancelled."""
        story = ReleaseStory(captain.eyes, self._observer, self._clock, self._say)
        self._story = story
        async with contextlib.AsyncExitStack() as stack:
            programs = [await stack.enter_async_context(run_captain(captain, self._clock))]
            for member in members.values():
                programs.append(stack.enter_context(run_member_programs(member, self._clock)))
            watches = [self._watch(stage, member) for stage, member in members.items()]
            await self._run_programs(programs, watches, story)

    async def _run_programs(
        self, programs: list[DemoPrograms], watches: Sequence[Part], story: ReleaseStory
    ) -> None:
        parts = [part for each in programs for part in each.parts]
        ground = [part for each in programs for part in each.ground]
        async with asyncio.TaskGroup() as tasks:
            work = tasks.create_task(serve(parts, [*ground, *watches]))
            await story.run()
            if not self._options.stays:
                self._end()
                work.cancel()
                return
            self._summarize()
            self._say("")
            self._say("the clusters stay until Ctrl-C or the end of --for")

    def _watch(self, stage: str, member: DemoCluster) -> Informer[NodeRemedier]:
        """Return a watch of its own by which the observer follows a member."""
        rules: Informer[NodeRemedier] = Informer(
            member.eyes,
            paths.custom(NodeRemedier.resource.plural),
            NodeRemedier.from_server,
            clock=self._clock,
            name=f"rules of {member.name}",
        )

        def observe(_: str, __: NodeRemedier | None, new: NodeRemedier | None) -> None:
            self._observer.observe(stage, new, self._elapsed())

        rules.add_handler(observe)
        return rules

    def _elapsed(self) -> float:
        return self._clock.monotonic() - self._began

    def _say(self, text: str) -> None:
        """Print a line of the story, with its second."""
        sys.stderr.write(f"{self._elapsed():4.0f} s  {text}\n" if text else "\n")
        sys.stderr.flush()

    def _summarize(self) -> None:
        """Print the summary once, if the programs have run."""
        if self._story is None or self.summarized:
            return
        self.summarized = True
        result: dict[str, Any] = summarize(self._observer, self._story.phases, self._elapsed())
        text = json.dumps(result) if self._options.json else "\n" + "\n".join(describe(result))
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
