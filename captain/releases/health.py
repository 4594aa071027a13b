"""Judges the objects of a release in one cluster: drift, harm and health. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from captain.releases.content import Raw, list_differences
from captain.releases.model import EVIDENCE_LENGTH
from kubenode.api.meta import Condition
from kubenode.api.names import list_first
from kubenode.api.readiness import Progress, Readiness, read_progress
from kubenode.api.v1alpha1.defenderpolicy import BreakerState, DefenderPolicyStatus
from kubenode.api.v1alpha1.release import (
    PayloadKind,
    PayloadObject,
    ReleaseReason,
)

SHOWN = 3
"""Differences of an object that a text names before the rest is counted."""
DRIFT_LENGTH = 512
MOST_COUNTED = 10_000_000
"""Largest number that a member's status is believed to count."""


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """Health of the payload in a cluster.

    reason: None if all objects are as released and healthy.
    drift: objects that others changed or deleted.
    """

    progress: Progress
    reason: ReleaseReason | None = None
    evidence: str = ""
    drift: Sequence[str] = ()


def judge_cluster(
    payload: Iterable[PayloadObject],
    relapsed: int,
    objects: Mapping[str, Raw | None],
) -> ClusterHealth:
    """Return the health. Drift decides before harm, harm before health.

    relapsed: number of jobs for a relapse that the rules counted when they were applied.
    """
    payload = list(payload)
    drift = [text[:DRIFT_LENGTH] for each in payload if (text := find_drift(each, objects))]
    if drift:
        evidence = "; ".join(drift)[:EVIDENCE_LENGTH]
        return ClusterHealth(Progress.FAILED, ReleaseReason.DRIFTED, evidence, drift)
    lives = [(each, objects[each.key] or {}) for each in payload]
    new_relapses = sum(read_relapsed(live) for _, live in lives) - relapsed
    if new_relapses > 0:
        text = f"the rules of the payload have {new_relapses} new jobs for a relapse"
        return _judged(Progress.FAILED, ReleaseReason.HARMFUL, [text])
    answers = [(each.key, read_readiness(each.kind, live)) for each, live in lives]
    failed = list(_describe(answers, Progress.FAILED))
    if failed:
        return _judged(Progress.FAILED, ReleaseReason.UNHEALTHY, failed)
    waits = list(_describe(answers, Progress.IN_PROGRESS))
    if waits:
        return _judged(Progress.IN_PROGRESS, ReleaseReason.NOT_HEALTHY_YET, waits)
    return ClusterHealth(Progress.CURRENT)


def find_drift(wanted: PayloadObject, objects: Mapping[str, Raw | None]) -> str:
    """Return how the object differs from the payload, "" if it does not."""
    live = objects.get(wanted.key)
    if live is None:
        return f"{wanted.key} does not exist any more"
    paths = list(list_differences(wanted.spec, live.get("spec", {})))
    return f"{wanted.key} was changed at {list_first(paths, SHOWN)}" if paths else ""


def find_unreadable(kind: str, live: Raw) -> str:
    """Return why an answer of a member is no object of its kind, "" if it is.

    A member may answer with anything. It must not stop the release in other clusters.
    """
    if not all(isinstance(live.get(part, {}), Mapping) for part in ("metadata", "spec", "status")):
        return "metadata, spec and status must be objects"
    try:
        read_readiness(kind, live)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        return str(error)
    return ""


def read_relapsed(live: Raw) -> int:
    """Return the number of jobs for a relapse that a rule counts, 0 for other kinds."""
    return read_count(live, "jobs", "relapsed")


def read_count(live: Raw, part: str, name: str) -> int:
    """Return a number of the status, 0 if there is none, and at most MOST_COUNTED."""
    status = live.get("status")
    counts = status.get(part) if isinstance(status, Mapping) else None
    count = counts.get(name) if isinstance(counts, Mapping) else None
    return max(0, min(count, MOST_COUNTED)) if isinstance(count, int) else 0


def read_readiness(kind: str, live: Raw) -> Readiness:
    """Return the progress of a live object as `kubenode verify` reads it."""
    status = live.get("status", {})
    conditions = [
        Condition.model_validate(each, extra="ignore") for each in status.get("conditions", ())
    ]
    generation, observed = (
        live["metadata"].get("generation", 0),
        status.get("observedGeneration", 0),
    )
    return read_progress(kind, generation, observed, conditions)


def list_open_breakers(policies: Iterable[Raw]) -> list[str]:
    """Return the breakers in the status of DefenderPolicies that are not closed, as texts.

    A policy that cannot be read counts as one.
    """
    return [text for policy in policies for text in _list_open(policy)]


def _list_open(policy: Raw) -> Iterator[str]:
    try:
        name = f"{PayloadKind.DEFENDER_POLICY}/{policy['metadata']['name']}"
        status = DefenderPolicyStatus.model_validate(policy.get("status") or {}, extra="ignore")
    except (AttributeError, LookupError, TypeError, ValidationError):
        yield f"a {PayloadKind.DEFENDER_POLICY} cannot be read"
        return
    for breaker in status.breaker:
        if breaker.state is not BreakerState.CLOSED:
            yield f"{name}: breaker {breaker.scope} is {breaker.state}: {breaker.why}".rstrip(": ")


def _describe(answers: Iterable[tuple[str, Readiness]], progress: Progress) -> Iterator[str]:
    for key, readiness in answers:
        if readiness.progress is progress:
            yield f"{key}: {readiness.reason}: {readiness.message}".rstrip(": ")


def _judged(progress: Progress, reason: ReleaseReason, texts: Sequence[str]) -> ClusterHealth:
    return ClusterHealth(progress, reason, "; ".join(texts)[:EVIDENCE_LENGTH])
