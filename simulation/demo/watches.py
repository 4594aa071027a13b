"""The observer's own watches on nodes, pods, jobs, permits and the policy, merged into one order.

They use no informer, so that a mistake there cannot hide a violation here. The embedded API server
has one counter of resourceVersions for all resources. So the changes of several watches can be put
into the order in which the server made them: each change waits HOLD seconds for older ones.
Otherwise a permit that replaces a released one might seem to be open beside it.
"""

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from kubenode.api.cordon import CORDONED_BY
from kubenode.api.v1alpha1.ladder import Remainder, list_steps
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import NETWORK_ERRORS, Kube
from kubenode.runtime.kube.errors import KubeError
from simulation.demo.books import PermitView
from simulation.demo.breakers import JobView
from simulation.demo.ledger import Ledger
from simulation.demo.observer import NodeView, Observer

HOLD = 0.3
WATCH_SECONDS = 300
CLOSED = frozenset({"Succeeded", "Failed", "Cancelled", "Shadowed"})
TELLING = list_steps(lambda kind: kind.remainder is Remainder.NOTHING) - {"uncordon"}
ACTING = frozenset({"Enforce", "Approve"})
STARTUP = "StartupGrace"

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ObjectChange:
    at: float
    what: str
    name: str
    obj: Object | None


class Watching:
    """Feeds an Observer and the ledger, and keeps the jobs for the view.

    on_job: called with (node, phase, hold reason) whenever a job changes.
    """

    def __init__(
        self,
        kube: Kube,
        observer: Observer,
        ledger: Ledger,
        clock: Clock,
        on_job: Callable[[str, str, str], None],
    ) -> None:
        self.kube = kube
        self._observer = observer
        self._ledger = ledger
        self.clock = clock
        self._on_job = on_job
        self._heap: list[tuple[int, int, ObjectChange]] = []
        self._number = itertools.count()
        self._phases: dict[str, str] = {}
        self.jobs: dict[str, Object] = {}
        self.policy_status: Object = {}
        self.relists = 0
        """Lists after the first one. Each could have hidden changes, so it must stay 0."""

    def parts(self) -> list["ResourceWatch"]:
        """Return one endless watch for each resource. They must run before anything can act."""
        return [
            ResourceWatch(self, "node", paths.nodes()),
            ResourceWatch(self, "pod", paths.pods()),
            ResourceWatch(self, "job", paths.custom("remedyoperationjobs")),
            ResourceWatch(self, "permit", paths.custom("permits")),
            ResourceWatch(self, "policy", paths.custom("defenderpolicies")),
        ]

    name = "observer"

    async def run(self) -> None:
        while True:
            await self.clock.sleep(0.1)
            self.apply(self.clock.monotonic() - HOLD)

    def apply(self, until: float) -> None:
        """Pass on the changes before `until`, in the server's order."""
        while self._heap and self._heap[0][2].at <= until:
            self._apply_change(heapq.heappop(self._heap)[2])
        self._observer.settle(until)

    def host_acted(self, node: str, what: str) -> None:
        self._observer.host_act(self.clock.monotonic(), node, what)

    def listed(self, what: str, objects: list[Object]) -> None:
        at = self.clock.monotonic()
        if what == "node":
            views = {o["metadata"]["name"]: node_view(o) for o in objects}
            self._observer.listed(at, views)
            return
        for obj in objects:
            self._apply_change(ObjectChange(at, what, obj["metadata"]["name"], obj))

    def changed(self, what: str, gone: bool, obj: Object) -> None:
        meta = obj["metadata"]
        version = int(meta.get("resourceVersion") or 0)
        name = meta["name"]
        change = ObjectChange(self.clock.monotonic(), what, name, None if gone else obj)
        heapq.heappush(self._heap, (version, next(self._number), change))

    def _apply_change(self, change: ObjectChange) -> None:
        match change.what:
            case "node":
                now = node_view(change.obj) if change.obj is not None else None
                self._observer.node(change.at, change.name, now)
            case "permit":
                permit = permit_view(change.obj) if change.obj is not None else None
                self._observer.permit(change.at, change.name, permit)
            case "pod":
                self._pod(change)
            case "job":
                self._job(change)
            case "policy" if change.obj is not None:
                self.policy_status = change.obj.get("status") or {}
                self._observer.record_breakers(change.at, self.breakers)

    def _pod(self, change: ObjectChange) -> None:
        """Record an eviction.

        In the simulation a pod gets a deletionTimestamp only by an eviction.
        """
        if change.obj is None:
            return
        meta, spec = change.obj["metadata"], change.obj.get("spec", {})
        if meta.get("deletionTimestamp") and spec.get("nodeName"):
            self._observer.pod_leaving(change.at, meta["uid"], spec["nodeName"])

    def _job(self, change: ObjectChange) -> None:
        job = change.obj
        self._observer.job(change.at, change.name, job_view(job) if job is not None else None)
        if job is None:
            self.jobs.pop(change.name, None)
            return
        self.jobs[change.name] = job
        spec, status = job["spec"], job.get("status") or {}
        node, phase = spec["nodeName"], status.get("phase") or "Pending"
        if change.name not in self._phases:
            self._ledger.decided(node, change.name, change.at)
        if phase == "Cancelled" and _unbegun(job):
            self._ledger.given_up(change.name)
        if phase == "Succeeded" and self._phases.get(change.name) != phase:
            self._ledger.succeeded(change.name, change.at)
        self._phases[change.name] = phase
        for step in status.get("steps") or ():
            if step.get("by") in ("Agent", "Provider") and step.get("askedAt"):
                # By UID: after a restore of etcd another job may have the name of a lost one.
                uid = job["metadata"].get("uid") or change.name
                self._observer.request(
                    change.at, uid, node, step["requestID"], describe_request(spec, step)
                )
        self._on_job(node, phase, (status.get("hold") or {}).get("reason") or "")

    def has_active_breaker(self) -> bool:
        """Return whether the policy's status shows a breaker that is open or half-open."""
        return any(state != "Closed" for _, state in self.breakers)

    @property
    def breakers(self) -> list[tuple[str, str]]:
        """Return (scope, state) of each breaker in the policy's status."""
        return [(b["scope"], b["state"]) for b in self.policy_status.get("breaker") or ()]

    @property
    def phases(self) -> list[str]:
        return list(self._phases.values())


class ResourceWatch:
    """A Part that lists one resource once and then watches it."""

    def __init__(self, owner: Watching, what: str, path: str) -> None:
        self._owner = owner
        self._what = what
        self._path = path
        self._from = ""

    @property
    def name(self) -> str:
        return f"observe {self._what}"

    def follow_from(self, version: str) -> None:
        """Continue from another resourceVersion, once the open watch has ended."""
        self._from = version

    async def run(self) -> None:
        while True:
            try:
                if not self._from:
                    await self._list()
                await self._watch()
            except (KubeError, *NETWORK_ERRORS) as error:
                if isinstance(error, KubeError) and error.status == 410:
                    self._from = ""
                    self._owner.relists += 1
                await self._owner.clock.sleep(0.2)

    async def _list(self) -> None:
        answer = await self._owner.kube.call("GET", self._path, timeout=60)
        self._from = answer["metadata"]["resourceVersion"]
        self._owner.listed(self._what, answer["items"])

    async def _watch(self) -> None:
        query: dict[str, str | int | None] = {
            "watch": "1",
            "resourceVersion": self._from,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": WATCH_SECONDS,
        }
        limit = float(WATCH_SECONDS + 10)
        async with await self._owner.kube.open("GET", self._path, query, timeout=limit) as stream:
            async for line in stream.content:
                self._line(msgspec.json.decode(line))

    def _line(self, event: Object) -> None:
        obj = event["object"]
        if event["type"] == "ERROR":
            raise KubeError(int(obj.get("code") or 0), str(obj.get("reason")), "watch ended")
        self._from = obj["metadata"]["resourceVersion"]
        if event["type"] != "BOOKMARK":
            self._owner.changed(self._what, event["type"] == "DELETED", obj)


def node_view(node: Object) -> NodeView:
    meta, spec = node["metadata"], node.get("spec") or {}
    conditions = (node.get("status") or {}).get("conditions") or ()
    return NodeView(
        labels=meta.get("labels") or {},
        ready=any(c["type"] == "Ready" and c["status"] == "True" for c in conditions),
        unschedulable=bool(spec.get("unschedulable")),
        ours=CORDONED_BY in (meta.get("annotations") or {}),
    )


def permit_view(permit: Object) -> PermitView:
    """Return the view of a permit. It is open until it is released or revoked, even before its
    status is written.
    """
    spec, status = permit["spec"], permit.get("status") or {}
    state = status.get("state") or "Granted"
    closed = state in ("Released", "Revoked") or bool(status.get("releasedAt"))
    return PermitView(spec["nodeName"], spec["class"], not closed, spec["holder"]["name"])


def _unbegun(job: Object) -> bool:
    """Return whether the job is in its initial wait, or ended before that was over."""
    timeline = (job.get("status") or {}).get("timeline") or {}
    return "initialWait" in job["spec"] and "jobCreated" not in timeline


def _shows_a_fault(job: Object) -> bool:
    """Return whether the job stands for a fault: not while its node starts, and not if the fault
    was over before the job began.
    """
    status, wait = job.get("status") or {}, job["spec"].get("initialWait") or {}
    reasons = (wait.get("reason"), (status.get("hold") or {}).get("reason"))
    return not _unbegun(job) or (status.get("phase") not in CLOSED and STARTUP not in reasons)


def job_view(job: Object) -> JobView:
    spec, status = job["spec"], job.get("status") or {}
    steps = [step for rung in spec["ladder"] for step in rung["steps"]]
    return JobView(
        node=spec["nodeName"],
        open=status.get("phase") not in CLOSED,
        acts=spec["mode"] in ACTING
        and any(disrupts(step) for step in steps)
        and _shows_a_fault(job),
        fault_class=spec.get("faultClass") or "",
        sources=frozenset(fact.get("source") or "" for fact in spec["trigger"].get("facts") or ()),
        rule=(spec.get("remedier") or {}).get("name") or "",
        rung=status.get("rung") or 0,
    )


def disrupts(step: Object) -> bool:
    """Return whether the step acts on the node or its pods. Notifications and labels do not."""
    if "agent" in step:
        return bool(step["agent"].get("action") != "RunCheck")
    return not TELLING.issuperset(step)


FIRST_CHECK = 16
"""Index of the record of a rung's first check."""
BEHIND = {
    "reboot": "Reboot",
    "collect": "CollectDiagnostics",
    "approveEvent": "ApproveEvent",
}
"""The agent's action behind steps that do not name one."""


def describe_request(spec: Object, step: Object) -> str:
    """Return a step's request as the host logs it: `RestartUnit kubelet.service`, `power off`."""
    if step["by"] == "Provider":
        return f"power {(step.get('output') or {}).get('asked', '?')}"
    rung, index = spec["ladder"][step["rung"]], step["index"]
    if index >= FIRST_CHECK:
        return f"RunCheck {index - FIRST_CHECK}"
    ladder_step = rung["steps"][index]
    if "agent" not in ladder_step:
        return BEHIND.get(step["name"], "?")
    act = ladder_step["agent"]
    return f"{act.get('action', '?')} {act.get('unit', '')}".strip()
