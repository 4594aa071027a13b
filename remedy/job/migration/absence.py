"""How long evicted pods had no ready replacement: notes in the step's record, and their sum. Pure.

A note is `namespace,ownerUID,selector,bornMillis,goneMillis*count+…`, one for each controller.
Notes are spread over the outputs `moved`, `moved1`, … of at most CHUNK characters; notes that do
not fit are counted in `untold`, so that a sum never appears complete when it is not.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from kubenode.runtime.drain.policy import owner
from kubenode.runtime.kube.objects import Pod
from remedy.job.model import Job

OUTPUT, UNTOLD = "moved", "untold"
CHUNK, CHUNKS = 1024, 8
DISTINCT = 6
"""Distinct times that a note keeps: more are replaced by their mean, which keeps the sum."""
REPLICA_LABELS = (
    "statefulset.kubernetes.io/pod-name",
    "pod-template-hash",
    "batch.kubernetes.io/controller-uid",
)
"""Labels that a pod shares with its replacement and with few others, in order of preference."""


@dataclass(frozen=True, slots=True)
class AbsenceRecord:
    """Evicted pods of one controller: how to find their replacements, and since when they are away.

    born: replacements were created at or after this time
    times: when each pod left
    """

    namespace: str
    owner: str
    selector: str
    born: datetime
    times: tuple[datetime, ...]

    @property
    def key(self) -> tuple[str, str, str]:
        return self.namespace, self.owner, self.selector


def replica_label(pod: Pod) -> str:
    """Return a label selector that finds the pod's replacement; "" for a pod that is
    not replaced.
    """
    if owner(pod) is None:
        return ""
    labels = pod.metadata.labels
    return next((f"{k}={labels[k]}" for k in REPLICA_LABELS if k in labels), "")


def away_since(pod: Pod, at: datetime) -> datetime:
    """Return `at`, or the earlier time at which the pod stopped being ready: on a host that hangs
    the pod was unavailable long before its eviction.
    """
    unready = (
        c.last_transition_time
        for c in pod.status.conditions
        if c.type == "Ready" and c.status != "True" and c.last_transition_time is not None
    )
    return min([at, *unready])


def note(pods: Iterable[Pod], at: datetime, born: Mapping[str, datetime] | None = None) -> str:
    """Return notes on pods that were evicted at `at`, joined by `;`.

    born: by uid of ReplicaSets with surge, when their replacements were requested
    """
    absences: dict[tuple[str, str, str], AbsenceRecord] = {}
    for pod in pods:
        ref, selector = owner(pod), replica_label(pod)
        if ref is None or not selector:
            continue
        new = AbsenceRecord(
            pod.metadata.namespace,
            ref.uid,
            selector,
            (born or {}).get(ref.uid, at),
            (away_since(pod, at),),
        )
        absences[new.key] = _joined(absences.get(new.key), new)
    return ";".join(_text(n) for _, n in sorted(absences.items()))


def add(output: Mapping[str, str], moved: str) -> dict[str, str]:
    """Return the output with the notes `moved` added, within the bounds."""
    notes: dict[tuple[str, str, str], AbsenceRecord] = {}
    for each in [*_parsed(output), *_read(moved)]:
        notes[each.key] = _joined(notes.get(each.key), each)
    rest = {k: v for k, v in output.items() if not _is_chunk(k) and k != UNTOLD}
    chunks, untold = _chunks([_text(n) for _, n in sorted(notes.items())])
    untold += int(output.get(UNTOLD, "0"))
    names = [OUTPUT + (str(i) if i else "") for i in range(len(chunks))]
    chunked = dict(zip(names, chunks, strict=True))
    return {**rest, **chunked, **({UNTOLD: str(untold)} if untold else {})}


def read_notes(job: Job) -> Iterator[AbsenceRecord]:
    """Yield the notes in the records of this job. Broken notes are skipped."""
    absences: dict[tuple[str, str, str], AbsenceRecord] = {}
    for record in job.status.steps:
        for each in _parsed(record.output):
            absences[each.key] = _joined(absences.get(each.key), each)
    yield from absences.values()


def waited(note: AbsenceRecord, pods: Sequence[Pod], now: datetime) -> timedelta:
    """Return the sum over the evicted pods of the time until a replacement was ready, or until
    `now`.

    The i-th pod to leave is matched with the i-th replacement to become ready. A replacement is a
    pod of the same controller created at or after `born`, in whole seconds as the API server stores
    them.
    """
    born = note.born.replace(microsecond=0)
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


def _joined(old: AbsenceRecord | None, new: AbsenceRecord) -> AbsenceRecord:
    if old is None:
        return new
    times = tuple(sorted([*old.times, *new.times]))
    if len(set(times)) > DISTINCT:
        mean = sum((t - times[0] for t in times), timedelta()) / len(times)
        times = (times[0] + mean,) * len(times)
    return replace(new, born=min(old.born, new.born), times=times)


def _text(note: AbsenceRecord) -> str:
    counts: dict[int, int] = {}
    for at in note.times:
        counts[_millis(at)] = counts.get(_millis(at), 0) + 1
    times = "+".join(f"{at}*{n}" for at, n in sorted(counts.items()))
    return ",".join((*note.key, str(_millis(note.born)), times))


def _chunks(texts: Sequence[str]) -> tuple[list[str], int]:
    """Return chunks within CHUNK and CHUNKS, and the number of notes that do not fit."""
    chunks: list[str] = []
    for i, text in enumerate(texts):
        if chunks and len(chunks[-1]) + 1 + len(text) <= CHUNK:
            chunks[-1] += ";" + text
        elif len(chunks) < CHUNKS and len(text) <= CHUNK:
            chunks.append(text)
        else:
            return chunks, len(texts) - i
    return chunks, 0


def _is_chunk(name: str) -> bool:
    rest = name.removeprefix(OUTPUT)
    return name.startswith(OUTPUT) and (rest == "" or rest.isdigit())


def _parsed(output: Mapping[str, str]) -> Iterator[AbsenceRecord]:
    for name in sorted(output):
        if _is_chunk(name):
            yield from _read(output[name])


def _read(text: str) -> Iterator[AbsenceRecord]:
    for each in filter(None, text.split(";")):
        parts = each.split(",")
        if len(parts) != 5 or not _is_millis(parts[3]):
            continue
        times: list[datetime] = []
        for part in parts[4].split("+"):
            at, _, count = part.partition("*")
            if _is_millis(at) and count.isdigit():
                times += [_time(at)] * min(int(count), 1024)
        if times:
            yield AbsenceRecord(parts[0], parts[1], parts[2], _time(parts[3]), tuple(sorted(times)))


def _is_millis(text: str) -> bool:
    return text.isdigit() and len(text) <= 14


def _millis(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def _time(millis: str) -> datetime:
    return datetime.fromtimestamp(int(millis) / 1000, UTC)
