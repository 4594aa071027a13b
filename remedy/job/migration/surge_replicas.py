"""Surge: replacements run before pods are evicted, where the Deployment allows it. Pure.

The Deployment's replicas are raised by as many pods as may move at once, and lowered when the pods
have moved or the step ends. The step's record holds the intent; annotations of the Deployment hold
the number that we set. If somebody else scales it meanwhile, that number stays and only our
annotations are removed. Where surge is not safe, pods move without it, and the record says why.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from kubenode.runtime.drain.observation import Surge
from remedy.job.model import Job

OUTPUT, PLAIN = "surge", "unsurged"
"""Keys of the step's output: raised Deployments, and ReplicaSets that move without surge."""
SURGED_TO = "kubenode.io/surged-to"
"""Annotation on a Deployment: the replicas that all our jobs together have set."""
MARK = "surge.kubenode.io/"
"""Prefix of annotations on a Deployment, followed by the job name: how many replicas
the job added.
"""
ROOM = 1024
"""Longest value of an output, in characters."""
PATIENCE = timedelta(minutes=5)
"""Longest wait for a ready replacement."""


@dataclass(frozen=True, slots=True)
class SurgeDeployment:
    """Surge state of a Deployment.

    added: replicas that all our jobs have added; `mine` is this job's part
    set_to: what our jobs have set `replicas` to; None: nothing of ours
    may_add: how many pods above `replicas` its strategy allows
    settled: its controller has observed the newest spec, and one ReplicaSet has all its pods
    """

    replicas: int
    ready: int
    may_add: int
    settled: bool
    mine: int = 0
    added: int = 0
    set_to: int | None = None
    paused: bool = False
    scaled_by: str = ""
    """HorizontalPodAutoscaler that sets its replicas; "" for none."""

    @property
    def foreign(self) -> bool:
        """Report whether somebody else has set the replicas since we did."""
        return self.set_to is not None and self.set_to != self.replicas


def refusal(state: SurgeDeployment, claims: bool) -> str:
    """Return why the Deployment's pods move without surge; "" if surge is safe.

    claims: whether its pods have PersistentVolumeClaims: a second pod may not get the volume
    """
    if claims:
        return "its pods have volumes that a second pod may not get"
    if state.scaled_by:
        return f"HorizontalPodAutoscaler {state.scaled_by} sets its replicas"
    if state.may_add < 1:
        return "its strategy allows no pod more"
    if state.paused:
        return "its rollout is paused"
    if state.foreign:
        return "somebody else scales it at the moment"
    if not state.settled:
        return "its rollout is under way"
    return ""


def places(state: SurgeDeployment) -> int:
    """Return how many pods may leave because a replacement is ready for each."""
    return max(state.ready - (state.replicas - state.mine), 0)


def raised(state: SurgeDeployment, count: int) -> int:
    """Return the replicas after `count` more; only for a Deployment without refusal."""
    return state.replicas + count


def lowered(state: SurgeDeployment) -> int | None:
    """Return the replicas without ours; None: somebody else has set them, and they stay."""
    return None if state.foreign else max(state.replicas - state.mine, 0)


# -- the record -----------------------------------------------------------------------------------


def read(output: Mapping[str, str]) -> list[Surge]:
    """Parse what `write` wrote. Broken entries are skipped."""
    surges = []
    for text in filter(None, output.get(OUTPUT, "").split(";")):
        key, _, rest = text.partition("=")
        parts = rest.split(",")
        if len(parts) == 3 and parts[1].isdigit() and parts[2].isdigit() and len(parts[2]) < 15:
            at = datetime.fromtimestamp(int(parts[2]) / 1000, UTC)
            surges.append(Surge(key, parts[0], int(parts[1]), at))
    return surges


def write(output: Mapping[str, str], surges: Iterable[Surge]) -> dict[str, str]:
    """Return the output with as many surges as fit; the others follow when these are over."""
    text = ""
    for s in surges:
        entry = f"{s.key}={s.owner},{s.count},{round(s.since.timestamp() * 1000)}"
        if len(text) + len(entry) < ROOM:
            text = f"{text};{entry}" if text else entry
    return {**{k: v for k, v in output.items() if k != OUTPUT}, **({OUTPUT: text} if text else {})}


def short(uid: str) -> str:
    """Return the first characters of a uid, enough to distinguish the ReplicaSets of one node."""
    return uid[:8]


def plain(output: Mapping[str, str]) -> dict[str, str]:
    """Return the ReplicaSets (short uids) that move without surge, and why."""
    pairs = (text.partition("=") for text in output.get(PLAIN, "").split(";"))
    return {uid: why for uid, _, why in pairs if uid}


def write_plain(output: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Return the output with `more` added, by full uid. Reasons are cut to fit."""
    known = {**plain(output), **{short(uid): why for uid, why in more.items()}}
    room = max(ROOM // max(len(known), 1) - 10, 0)
    text = ";".join(f"{uid}={_word(why)[:room]}" for uid, why in known.items())
    return {**output, PLAIN: text[:ROOM]} if known else dict(output)


def _word(why: str) -> str:
    return why.replace(";", ",").replace("=", " ")


def records(job: Job) -> Iterator[StepStatus]:
    return (r for r in job.status.steps if r.output.get(OUTPUT))


def owned(job: Job) -> list[Surge]:
    """Return the surges of all steps, also of those that ended."""
    return [surge for record in records(job) for surge in read(record.output)]


def owns(job: Job) -> bool:
    return any(True for _ in records(job))


def forget(job: Job, keys: Iterable[str] | None = None) -> Job:
    """Remove the surges with these keys, or all of them, from the job's records."""
    gone = None if keys is None else set(keys)

    def without(record: StepStatus) -> StepStatus:
        remaining = [s for s in read(record.output) if gone is not None and s.key not in gone]
        return record.model_copy(update={"output": write(record.output, remaining)})

    return job.having(steps=[without(r) if r.output.get(OUTPUT) else r for r in job.status.steps])
