"""Stories of one node that is repaired on a real API server, and what must be so at their end.

restart     pods move, the agent restarts the kubelet, which helps
reset       the provider boots the host, which helps; asked once for each rung
everything  the agent cannot help, a power cycle does not bring it back: dark, fenced, replaced
"""

import asyncio
from typing import Any

from support.fate import FatedProvider
from support.remedy_cluster import POLL_SECONDS, Cluster, condition

from kubenode.api.v1alpha1 import JobPhase, RemedyOperationJob
from kubenode.providers.port import Can
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import STRATEGIC_PATCH
from remedy.power.claims import REPLACES

FAULT = "HostHung"
SHORT = {"for": "1s", "timeout": "30s", "settle": "0s"}
ALONE = {"ownerKinds": ["None"], "mode": "Evict"}
MOVE: list[dict[str, Any]] = [
    {"cordon": {}},
    {"migrate": {"timeout": "60s", "podPolicies": [ALONE]}},
]
RESTART = {"agent": {"action": "RestartUnit", "unit": "kubelet.service", "timeout": "60s"}}
RESET = {"reboot": {"via": ["Provider"], "timeout": "6s"}}
"""Asked once: where nobody knows whether it was, time decides, and the next rung asks."""
LADDERS: dict[str, list[dict[str, Any]]] = {
    "restart": [{"name": "restart", "steps": [*MOVE, RESTART], "verify": SHORT}],
    "reset": [
        {"name": "boot", "steps": [*MOVE, RESET], "verify": SHORT},
        {"name": "again", "steps": [RESET], "verify": SHORT},
        {"name": "once-more", "steps": [RESET], "verify": SHORT},
    ],
    "everything": [
        {"name": "restart", "steps": [*MOVE, RESTART], "verify": SHORT},
        {"name": "cycle", "steps": [{"powerCycle": {"timeout": "4s"}}], "verify": SHORT},
        {
            "name": "replace",
            "steps": [{"powerOff": {}}, {"fence": {}}, {"replace": {"timeout": "60s"}}],
            "verify": SHORT,
        },
    ],
}
ASKED = {
    "restart": [],
    "reset": ["reset"],
    "everything": ["off", "on", "off", "replace"],
}


class Story:
    """One node with its machine, pods and agent; what is done to them is noted."""

    def __init__(self, cluster: Cluster, name: str, ladder: str) -> None:
        self.cluster, self.name, self.ladder = cluster, name, ladder
        boots = self.boots if ladder == "reset" else self.stays_away
        forgets = ladder == "reset"
        can = Can(off=not forgets, reset=True, replace=True, repeatable=not forgets)
        self.provider = FatedProvider(boots=boots, replaced=self.replaced, can=can)
        self.answered: list[str] = []
        self.healed = False

    async def begin(self) -> None:
        await self.machine(self.name)
        await self.cluster.rule(
            "hung",
            mode="Enforce",
            nodes={"all": True},
            when={"condition": {"type": FAULT, "status": "True"}},
            groupWait="0s",
            startupGrace="0s",
            ladder=LADDERS[self.ladder],
        )
        for pod in ("a", "b"):
            await self.cluster.pod(self.name, "default", f"{self.name}-{pod}", "web")
        await self.cluster.say(self.name, FAULT, "True")

    async def machine(self, name: str) -> None:
        await self.cluster.node(name, labels={"kubenode.io/pool": "pool-a"})
        patch = {"spec": {"providerID": f"memory:///{name}"}}
        await self.cluster.kube.patch(paths.node(name), patch)

    async def boots(self, node: str) -> None:
        patch = {"status": {"nodeInfo": {"bootID": "boot-after"}}}
        await self.cluster.kube.patch(paths.node(node, "status"), patch, STRATEGIC_PATCH)
        await self.cured()

    async def stays_away(self, node: str) -> None:
        pass

    async def replaced(self, node: str) -> None:
        await self.cluster.kube.delete(paths.node(node))
        await self.machine(f"{node}-new")

    async def cured(self) -> None:
        await asyncio.sleep(1.1)  # reports have whole seconds: this one is of after the act
        await self.cluster.say(self.name, FAULT, "False")
        self.healed = True

    async def agent(self) -> None:
        """Answers each request once; in the whole story its act does not help. Beside it a detector
        goes on reporting that all is well, once it is.
        """
        told = 0.0
        while True:
            if self.healed and (now := SystemClock().monotonic()) > told + 1:
                told = now
                await self.heartbeat()
            for job in await self.cluster.jobs():
                asked = [r for r in job.status.steps if r.by == "Agent" and r.state == "Running"]
                if asked and asked[0].request_id not in self.answered:
                    self.answered.append(asked[0].request_id)
                    await self.answer(job)
            await asyncio.sleep(POLL_SECONDS)

    async def heartbeat(self) -> None:
        """The same report once more: nothing has changed since."""
        again = condition(FAULT, "False", "Test")
        del again["lastTransitionTime"]
        patch = {"status": {"conditions": [again]}}
        await self.cluster.kube.patch(paths.node(self.name, "status"), patch, STRATEGIC_PATCH)

    async def answer(self, job: RemedyOperationJob) -> None:
        helps = self.ladder == "restart"
        if helps:
            await self.cured()
        await self.cluster.answer(job, "Done" if helps else "Failed")

    async def end(self) -> RemedyOperationJob | None:
        """The job once it is closed and has let go."""
        jobs = await self.cluster.jobs()
        assert len(jobs) <= 1, [job.metadata.name for job in jobs]
        over = jobs and jobs[0].status.phase.closed and not jobs[0].metadata.finalizers
        return jobs[0] if over else None


def in_order(asked: list[tuple[str, str]]) -> list[str]:
    """What was asked, without repetitions of a wish for the same state."""
    words = [word for word, _ in asked]
    return [w for i, w in enumerate(words) if i == 0 or words[i - 1] != w]


async def as_it_must_end(cluster: Cluster, story: Story, job: RemedyOperationJob) -> None:
    """Healed, each act that cannot be repeated done once, nothing of ours left but the claim of the
    new Node, which stays so that no other job counts it.
    """
    told = [(r.rung, r.name, str(r.state), r.message) for r in job.status.steps]
    assert job.status.phase is JobPhase.SUCCEEDED, told
    assert in_order(story.provider.asked) == ASKED[story.ladder], told
    once = [word for word, _ in story.provider.asked if word in ("reset", "replace")]
    assert len(once) == len(set(once)), story.provider.asked
    assert len(story.answered) == (0 if story.ladder == "reset" else 1)
    assert cluster.permits.held == {}
    found = await cluster.kube.get(paths.nodes())
    mine = [n for n in found["items"] if n["metadata"]["name"].startswith(story.name)]
    assert len(mine) == 1
    (node,) = mine
    assert not node["spec"].get("unschedulable")
    annotations = node["metadata"].get("annotations", {})
    marks = {key: text for key, text in annotations.items() if "kubenode.io" in key}
    replaced = [r for r in job.status.steps if r.name == "replace" and r.state == "Done"]
    assert len(replaced) == (1 if story.ladder == "everything" else 0), told
    claims = [(REPLACES, f"{job.metadata.uid}.{r.request_id}") for r in replaced]
    assert list(marks.items()) == claims
    assert not [t for t in node["spec"].get("taints") or [] if "out-of-service" in t["key"]]
    pods = await cluster.kube.get(paths.pods("default"))
    names = [pod["metadata"]["name"] for pod in pods["items"]]
    assert not [name for name in names if name.startswith(f"{story.name}-")]
