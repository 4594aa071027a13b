"""Surge: where a Deployment allows, replacements run before pods are evicted. Pure.

Its replicas are raised by as many as may move at once, and lowered again when they have moved or
the step ends. What is raised stands in the step's record before it is done, and in annotations of
the Deployment together with the number that we set: if somebody else scales it meanwhile, the
number is theirs and only our marks go. Where that is not safe, pods move as without surge, and the
record says why.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from kubenode.runtime.drain.words import Surge
from remedy.job.model import Job

OUTPUT, PLAIN = "surge", "unsurged"
SURGED_TO = "kubenode.io/surged-to"
"""Annotation on a Deployment: the replicas that all our jobs together have set."""
MARK = "surge.kubenode.io/"
"""Annotations on a Deployment, by job: how many replicas it added."""
ROOM = 1024
"""Characters of an output."""
PATIENCE = timedelta(minutes=5)
"""A replacement that is not ready by then is not waited for."""


@dataclass(frozen=True, slots=True)
class SurgeDeployment:
    """A Deployment as surge sees it.

    added     replicas that our jobs have added, this one's in `mine`
    set_to    what our jobs have set `replicas` to; None: nothing of ours
    may_add   how many pods above `replicas` its own strategy allows
    settled   its controller has seen the newest spec, and one ReplicaSet has all its pods
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
    """Who else sets its replicas: name of a HorizontalPodAutoscaler, "" for nobody."""

    @property
    def foreign(self) -> bool:
        """Whether somebody else has set the replicas since we did."""
        return self.set_to is not None and self.set_to != self.replicas


def refusal(found: SurgeDeployment, claims: bool) -> str:
    """Why its pods move without surge, "" if surge is safe.

    claims  whether its pods have PersistentVolumeClaims: a second one may not get the volume
    """
    if claims:
        return "its pods have volumes that a second pod may not get"
    if found.scaled_by:
        return f"HorizontalPodAutoscaler {found.scaled_by} sets its replicas"
    if found.may_add < 1:
        return "its strategy allows no pod more"
    if found.paused:
        return "its rollout is paused"
    if found.foreign:
        return "somebody else scales it at the moment"
    if not found.settled:
        return "its rollout is under way"
    return ""


def places(found: SurgeDeployment) -> int:
    """How many pods may go because a replacement is ready for each."""
    return max(found.ready - (found.replicas - found.mine), 0)


def raised(found: SurgeDeployment, count: int) -> int:
    """The replicas after `count` more; only for a Deployment without refusal."""
    return found.replicas + count


def lowered(found: SurgeDeployment) -> int | None:
    """The replicas without ours; None: they are somebody else's by now and stay."""
    return None if found.foreign else max(found.replicas - found.mine, 0)


# -- the record -----------------------------------------------------------------------------------


def read(output: Mapping[str, str]) -> list[Surge]:
    """What `write` wrote. Broken entries are passed over."""
    found = []
    for text in filter(None, output.get(OUTPUT, "").split(";")):
        key, _, rest = text.partition("=")
        parts = rest.split(",")
        if len(parts) == 3 and parts[1].isdigit() and parts[2].isdigit() and len(parts[2]) < 15:
            at = datetime.fromtimestamp(int(parts[2]) / 1000, UTC)
            found.append(Surge(key, parts[0], int(parts[1]), at))
    return found


def write(output: Mapping[str, str], surges: Iterable[Surge]) -> dict[str, str]:
    """As many as find room; the others come when these are over."""
    text = ""
    for s in surges:
        one = f"{s.key}={s.owner},{s.count},{round(s.since.timestamp() * 1000)}"
        if len(text) + len(one) < ROOM:
            text = f"{text};{one}" if text else one
    return {**{k: v for k, v in output.items() if k != OUTPUT}, **({OUTPUT: text} if text else {})}


def short(uid: str) -> str:
    """Enough of a uid to tell the ReplicaSets of one node apart."""
    return uid[:8]


def plain(output: Mapping[str, str]) -> dict[str, str]:
    """ReplicaSets (short uids) that move without surge, and why."""
    pairs = (text.partition("=") for text in output.get(PLAIN, "").split(";"))
    return {uid: why for uid, _, why in pairs if uid}


def write_plain(output: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """With `more`, by whole uids. Reasons are cut where there is no room."""
    known = {**plain(output), **{short(uid): why for uid, why in more.items()}}
    room = max(ROOM // max(len(known), 1) - 10, 0)
    text = ";".join(f"{uid}={_word(why)[:room]}" for uid, why in known.items())
    return {**output, PLAIN: text[:ROOM]} if known else dict(output)


def _word(why: str) -> str:
    return why.replace(";", ",").replace("=", " ")


def records(job: Job) -> Iterator[StepStatus]:
    return (r for r in job.status.steps if r.output.get(OUTPUT))


def owned(job: Job) -> list[Surge]:
    """Of all steps, also of those that ended."""
    return [surge for record in records(job) for surge in read(record.output)]


def owns(job: Job) -> bool:
    return any(True for _ in records(job))


def forget(job: Job, keys: Iterable[str] | None = None) -> Job:
    """Without these, or any, surges of ours."""
    gone = None if keys is None else set(keys)

    def without(record: StepStatus) -> StepStatus:
        left = [s for s in read(record.output) if gone is not None and s.key not in gone]
        return record.model_copy(update={"output": write(record.output, left)})

    return job.having(steps=[without(r) if r.output.get(OUTPUT) else r for r in job.status.steps])
