"""Pods of a node at the API server: list them, evict them, find what replaced them.

Pods are listed per node when they are needed and not watched: a cache of all pods of a large
cluster would be most of the process's memory.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec

from kubenode.api.duration import parse_duration
from kubenode.api.v1alpha1.ladder import MigrateStep
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Conflict, KubeError, NotFound, Throttled
from kubenode.runtime.kube.objects import Pod, PodDisruptionBudget, Structs
from remedy.job.drain import Protection, plan, replica_label
from remedy.job.model import Act, Blocked, Heard, Job, Pods

AT_ONCE = 8
"""Evictions of one node under way at a time: a drain must not flood the API server."""


class _PodList(msgspec.Struct):
    items: list[Pod] = []


class _BudgetList(msgspec.Struct):
    items: list[PodDisruptionBudget] = []


_pod_list: Structs[_PodList] = Structs(_PodList)
_budget_list: Structs[_BudgetList] = Structs(_BudgetList)


class PodAccess:
    def __init__(self, kube: Kube, protection: Protection, clock: Clock) -> None:
        self._kube = kube
        self._protection = protection
        self._clock = clock

    async def on_node(self, job: Job) -> list[Pod]:
        query = {"fieldSelector": f"spec.nodeName={job.spec.node_name}"}
        return (await self._kube.get(paths.pods(), _pod_list, query=query)).items

    async def left(self, job: Job) -> Pods:
        return plan(await self.on_node(job), _migrate(job), self._protection)

    async def evict(self, job: Job, keys: tuple[str, ...]) -> Heard:
        """One eviction for each of `keys` that still is on the node, under its uid."""
        wanted = set(keys)
        pods = [p for p in await self.on_node(job) if p.metadata.key in wanted]
        gate = asyncio.Semaphore(AT_ONCE)
        grace = _migrate(job).grace_period
        seconds = None if grace == "pod" else int(parse_duration(grace).total_seconds())

        async def one(pod: Pod) -> Blocked | None:
            async with gate:
                return await self._evict(pod, seconds)

        async with asyncio.TaskGroup() as tasks:
            results = [tasks.create_task(one(pod)) for pod in pods]
        answers = list(zip(pods, (r.result() for r in results), strict=True))
        evicted = [pod for pod, blocked in answers if blocked is None]
        return Heard(
            Act.EVICT,
            evicted=tuple(p.metadata.key for p in evicted),
            moved=notes(evicted, self._clock.now()),
            blocked=await self._named(next((b for _, b in answers if b is not None), None)),
        )

    async def _evict(self, pod: Pod, seconds: int | None) -> Blocked | None:
        """None when the pod goes, or is gone, or is another one by now."""
        meta = pod.metadata
        options: dict[str, object] = {"preconditions": {"uid": meta.uid}}
        if seconds is not None:
            options["gracePeriodSeconds"] = seconds
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": meta.name, "namespace": meta.namespace},
            "deleteOptions": options,
        }
        try:
            await self._kube.create(paths.eviction(meta.namespace, meta.name), body)
        except (NotFound, Conflict):
            return None
        except Throttled as error:
            return Blocked(meta.key, "", error.message)
        except KubeError as error:
            if error.status != 500:
                raise
            # Two budgets that both select the pod: the server refuses to choose.
            return Blocked(meta.key, "", error.message)
        return None

    async def _named(self, blocked: Blocked | None) -> Blocked | None:
        """With the names of the budgets that select the pod: the server's 429 has none in it."""
        if blocked is None:
            return None
        namespace, _, name = blocked.pod.partition("/")
        try:
            pod = await self._kube.get(paths.pod(namespace, name), Structs(Pod))
            found = await self._kube.get(paths.pod_disruption_budgets(namespace), _budget_list)
        except KubeError:
            return blocked  # naming is a courtesy, the hold stands without it
        names = [b.metadata.name for b in found.items if _selects(b, pod)]
        if not names:
            return blocked
        budgets = ", ".join(f"{namespace}/{name}" for name in sorted(names))
        return Blocked(blocked.pod, f"pdb={budgets}", f"PDB {budgets}: {blocked.message}")

    async def unavailable(self, job: Job, now: datetime) -> timedelta:
        total = timedelta()
        for note in read_notes(job):
            query = {"labelSelector": note.selector}
            found = await self._kube.get(paths.pods(note.namespace), _pod_list, query=query)
            total += waited(note, found.items, now)
        return total


def _migrate(job: Job) -> MigrateStep:
    return job.step.migrate if job.step is not None and job.step.migrate else MigrateStep()


def _selects(budget: PodDisruptionBudget, pod: Pod) -> bool:
    selector = budget.spec.selector
    if selector is None:
        return False
    labels = pod.metadata.labels
    if any(labels.get(k) != v for k, v in selector.match_labels.items()):
        return False
    for e in selector.match_expressions:
        holds = {
            "In": labels.get(e.key) in e.values,
            "NotIn": labels.get(e.key) not in e.values,
            "Exists": e.key in labels,
            "DoesNotExist": e.key not in labels,
        }
        if not holds.get(e.operator, False):
            return False
    return True


@dataclass(frozen=True, slots=True)
class Note:
    """Evicted pods of one controller: where and how to find their replacements, and since when."""

    namespace: str
    owner: str
    selector: str
    times: tuple[datetime, ...]


def notes(pods: list[Pod], at: datetime) -> str:
    """`namespace,ownerUID,selector,epochMillis,count` per controller, joined by `;`."""
    counts: dict[tuple[str, str, str], int] = {}
    for pod in pods:
        if selector := replica_label(pod):
            uid = next(o.uid for o in pod.metadata.owner_references if o.controller)
            key = (pod.metadata.namespace, uid, selector)
            counts[key] = counts.get(key, 0) + 1
    millis = round(at.timestamp() * 1000)
    return ";".join(",".join((*key, str(millis), str(n))) for key, n in sorted(counts.items()))


def read_notes(job: Job) -> Iterator[Note]:
    """What `notes` wrote in this job, one Note per controller. Broken ones are passed over."""
    times: dict[tuple[str, str, str], list[datetime]] = {}
    for record in job.status.steps:
        for text in filter(None, record.output.get("moved", "").split(";")):
            parts = text.split(",")
            if len(parts) == 5 and parts[3].isdigit() and parts[4].isdigit():
                at = datetime.fromtimestamp(int(parts[3]) / 1000, UTC)
                times.setdefault((parts[0], parts[1], parts[2]), []).extend([at] * int(parts[4]))
    for (namespace, owner, selector), found in times.items():
        yield Note(namespace, owner, selector, tuple(sorted(found)))


def waited(note: Note, pods: list[Pod], now: datetime) -> timedelta:
    """The sum over the evicted pods of the time until a replacement was ready, or until `now`.

    The i-th eviction is matched with the i-th replacement to become ready. A replacement is a pod
    of the same controller that was created after the first eviction; the server keeps whole
    seconds.
    """
    born = note.times[0].replace(microsecond=0)
    ready = sorted(
        c.last_transition_time
        for pod in pods
        if any(o.controller and o.uid == note.owner for o in pod.metadata.owner_references)
        and pod.metadata.creation_timestamp is not None
        and pod.metadata.creation_timestamp >= born
        for c in pod.status.conditions
        if c.type == "Ready" and c.status == "True" and c.last_transition_time is not None
    )
    padded = [*ready, *([now] * len(note.times))]
    return sum(
        (max(back - gone, timedelta()) for gone, back in zip(note.times, padded, strict=False)),
        timedelta(),
    )
