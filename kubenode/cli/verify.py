"""`kubenode verify KIND/NAME`: whether a revision is proven, for the gates of release pipelines.

Reads the object, its nodes and the jobs on them. Writes nothing.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from kubenode.api.base import Resource
from kubenode.api.duration import parse_duration
from kubenode.api.meta import Condition, format_time
from kubenode.api.readiness import RULES, read_progress
from kubenode.api.v1alpha1 import (
    KINDS,
    DefenderPolicy,
    Machine,
    NodeRemedier,
    RemedyOperationJob,
)
from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.options import ReportFormat
from kubenode.cli.pause import read_instant
from kubenode.cli.revision_check import (
    RevisionCheck,
    RevisionState,
    RevisionSubject,
    check_revision,
)
from kubenode.cli.revision_scope import find_start, select_nodes
from kubenode.cli.tables import show_report
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.paths import custom, nodes

VERIFIABLE = tuple(kind for kind in KINDS if kind.__name__ in RULES)


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """The arguments of `kubenode verify`.

    reference: KIND/NAME.
    since: a time or a duration; "" for the start of the revision.
    max_new_faults: number of new faults that is still accepted.
    """

    reference: str
    since: str
    max_new_faults: int


async def verify_command(
    kubeconfig: str | None, context: str | None, request: VerifyRequest, output: ReportFormat
) -> Exit:
    kind, name = read_reference(request.reference)
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube, {kind.resource.plural, RemedyOperationJob.resource.plural})
        subject = await _read_subject(kube, kind, name, request)
        listed = await kube.get(custom(RemedyOperationJob.resource.plural))
    jobs = (RemedyOperationJob.model_validate(item, extra="ignore") for item in listed["items"])
    check = check_revision(subject, jobs)
    show_report(check.to_json(), output, lambda: describe(check))
    return Exit.FINE if check.state is RevisionState.VERIFIED else Exit.FINDING


def read_reference(reference: str) -> tuple[type[Resource], str]:
    """Return kind and name. The kind may be its name, plural or short name. Raises Refusal."""
    kind_name, _, name = reference.partition("/")
    for kind in VERIFIABLE:
        info = kind.resource
        if name and kind_name.lower() in (info.kind.lower(), info.plural, info.short_name):
            return kind, name
    kinds = ", ".join(kind.resource.kind for kind in VERIFIABLE)
    raise Refusal(f"{reference!r}: write KIND/NAME with one of the kinds {kinds}", Exit.USAGE)


def read_since(text: str, now: datetime) -> datetime:
    """Return the time of `--since`: an instant, or a duration before now. Raises Refusal.

    `16:00` is the last 16:00.
    """
    with contextlib.suppress(ValueError, OverflowError):
        return now - parse_duration(text)
    try:
        return read_instant(text, now - timedelta(days=1))
    except ValueError as error:
        message = f"--since: {text!r}: write a duration such as 2h, or a time: {error}"
        raise Refusal(message, Exit.USAGE) from error


async def _read_subject(
    kube: Kube, kind: type[Resource], name: str, request: VerifyRequest
) -> RevisionSubject:
    """Read the object and the nodes that it concerns. Raises Refusal if it does not exist."""
    now = kube.clock.now()
    since = read_since(request.since, now) if request.since else None
    try:
        raw = await kube.get(custom(kind.resource.plural, name))
    except NotFound as error:
        raise Refusal(f"there is no {kind.resource.kind} {name}") from error
    object_ = kind.model_validate(raw, extra="ignore")
    metadata, status = raw["metadata"], raw.get("status", {})
    conditions = [
        Condition.model_validate(each, extra="ignore") for each in status.get("conditions", ())
    ]
    generation, observed = metadata.get("generation", 0), status.get("observedGeneration", 0)
    is_rule = kind is NodeRemedier
    return RevisionSubject(
        kind=kind.resource.kind,
        name=name,
        readiness=read_progress(kind.__name__, generation, observed, conditions),
        conditions=conditions,
        began=since or find_start(object_, metadata) or now,
        rule=name if is_rule else "",
        nodes=None if is_rule else await _list_nodes(kube, object_),
        max_new_faults=None if is_rule else request.max_new_faults,
    )


async def _list_nodes(kube: Kube, object_: Resource) -> set[str]:
    if isinstance(object_, DefenderPolicy):
        listed = await kube.get(nodes())
        return {
            node["metadata"]["name"]
            for node in listed["items"]
            if object_.spec.nodes.matches(node["metadata"].get("labels", {}))
        }
    listed = await kube.get(custom(Machine.resource.plural))
    machines = (Machine.model_validate(item, extra="ignore") for item in listed["items"])
    return select_nodes(object_, machines)


def describe(check: RevisionCheck) -> Iterator[str]:
    """Yield the lines for people."""
    subject = check.subject
    yield f"{subject.kind}/{subject.name}: {check.state.value}, since {format_time(subject.began)}"
    if check.state is RevisionState.IN_PROGRESS:
        yield f"  waits: {subject.readiness.reason} {subject.readiness.message}".rstrip()
    for finding in check.findings:
        yield f"  {finding}"
