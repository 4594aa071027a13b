"""The acts of people in the scenario: a good release with its approval, a bad one and its rollback.

Captain and the members' operators do the rest. What this Part writes, it writes as a person would.
"""

from collections.abc import Callable, Iterator

from kubenode.api.v1alpha1 import MemberCluster, Release, ReleasePipeline
from kubenode.api.v1alpha1.membercluster import MemberPhase
from kubenode.api.v1alpha1.release import (
    ClusterPhase,
    PayloadObject,
    ReleasePhase,
    ReleaseState,
    ReleaseStatus,
)
from kubenode.cli.release_start import StartRequest, build_release
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.lists import decoded
from kubenode.runtime.release_control import ReleaseObjection, approve_stage
from simulation.demo.release.observer import ReleaseObserver
from simulation.demo.release.payload import (
    BAD,
    GOOD,
    MEMBERS,
    OLD,
    PIPELINE,
    RULE,
    build_pipeline,
    build_rule,
)

PERSON = "ann"
POLL_SECONDS = 0.25
READING_SECONDS = 1.5
"""Time for the audience to read why the release waits, before the person acts."""
RELEASES = {GOOD: f"{RULE}-{GOOD}", BAD: f"{RULE}-{BAD}"}
"""Version of the rule to the name of its release."""
PHASE_TEXTS = {
    ClusterPhase.APPLYING: "gets the new version",
    ClusterPhase.VERIFYING: "is judged by its own Remedy operator",
    ClusterPhase.SUCCEEDED: "is healthy",
    ClusterPhase.FAILED: "failed",
    ClusterPhase.SKIPPED: "was skipped",
    ClusterPhase.ROLLING_BACK: "gets back what stood there before",
    ClusterPhase.ROLLED_BACK: "has again what stood there before",
}
RELEASE_PATH = paths.custom(Release.resource.plural)


class ReleaseStory:
    """A Part that ends when both releases have ended.

    captain: the client of a person in Captain's cluster.
    phases: the last phase of each release.
    """

    name = "story"

    def __init__(
        self, captain: Kube, observer: ReleaseObserver, clock: Clock, say: Callable[[str], None]
    ) -> None:
        self._kube, self._observer, self._clock, self._say = captain, observer, clock, say
        self._lines: list[str] = []
        self.phases: dict[str, str] = {}

    async def run(self) -> None:
        await self._wait_until_connected()
        await self._wait_until_compiled()
        await self._kube.create(paths.custom(ReleasePipeline.resource.plural), build_pipeline())
        self._say(f"pipeline {PIPELINE}: {', then '.join(MEMBERS)} after an approval")
        await self._release(GOOD, "the condition must hold for five minutes")
        await self._release(BAD, "the rule reads a fact that nobody reports")

    async def _wait_until_connected(self) -> None:
        path, waits = paths.custom(MemberCluster.resource.plural), True
        while waits:
            await self._clock.sleep(POLL_SECONDS)
            members = [each async for each in decoded(self._kube, path, MemberCluster.from_server)]
            waits = any(each.status.phase is not MemberPhase.CONNECTED for each in members)
        names = ", ".join(f"{name} ({stage})" for stage, name in MEMBERS.items())
        self._say(f"Captain is connected to its members {names}")

    async def _wait_until_compiled(self) -> None:
        while not all((stage, OLD) in self._observer.proven for stage in MEMBERS):
            await self._clock.sleep(POLL_SECONDS)
        self._say(f"the Remedy operator of each member has compiled {RULE}, version {OLD}")

    async def _release(self, version: str, purpose: str) -> None:
        """Start a release, approve its last stage when it asks, and wait for its end."""
        name = RELEASES[version]
        self._say("")
        self._say(f"release {name}: {purpose}")
        request = StartRequest(name, (), PIPELINE, force=False, dry_run=False)
        payload = [PayloadObject.model_validate(build_rule(version))]
        await self._kube.create(RELEASE_PATH, build_release(request, payload))
        while not await self._has_ended(name):
            await self._clock.sleep(POLL_SECONDS)

    async def _has_ended(self, name: str) -> bool:
        release = await self._kube.get(f"{RELEASE_PATH}/{name}", Release.from_server)
        status = release.status
        if status.phase is None:
            return False
        self.phases[name] = status.phase
        self._narrate(status)
        if status.phase is ReleasePhase.AWAITING_APPROVAL and not release.spec.approvals:
            await self._approve(name, status.stage)
        if status.phase is ReleasePhase.PAUSED and release.spec.state is ReleaseState.RUN:
            await self._roll_back(release)
        return status.phase.ended

    async def _approve(self, name: str, stage: str) -> None:
        await self._clock.sleep(READING_SECONDS)
        try:
            await approve_stage(self._kube, name, stage, PERSON)
        except ReleaseObjection:
            return  # Captain writes the status too often; the next read approves
        self._say(f"  {PERSON} approves {stage}")

    async def _roll_back(self, release: Release) -> None:
        await self._clock.sleep(READING_SECONDS)
        self._say(f"  {PERSON} rolls it back: `kubenode release rollback {release.metadata.name}`")
        body = {"spec": {"state": ReleaseState.ROLLBACK}}
        await self._kube.patch(f"{RELEASE_PATH}/{release.metadata.name}", body)

    def _narrate(self, status: ReleaseStatus) -> None:
        """Print what has changed since the last call."""
        lines = list(describe_progress(status))
        for line in lines:
            if line not in self._lines:
                self._say(line)
        self._lines = lines


def describe_progress(status: ReleaseStatus) -> Iterator[str]:
    """Yield a line for each cluster that the release has reached, and one for the release."""
    for stage in status.stages:
        for cluster in stage.clusters:
            if cluster.phase is not ClusterPhase.PENDING:
                yield f"  {stage.name:<11} {cluster.name}  {PHASE_TEXTS[cluster.phase]}"
    if status.phase in (ReleasePhase.AWAITING_APPROVAL, ReleasePhase.PAUSED):
        yield f"  {status.phase}: {status.message}"
    if status.phase is not None and status.phase.ended:
        yield f"  {status.phase}"
