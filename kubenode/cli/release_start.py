"""`kubenode release plan` and `start`: from files to a Release."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from captain.releases.content import compute_payload_digest
from captain.releases.decision import find_invalid
from captain.releases.stages import find_problem, list_clusters
from kubenode.api.base import API_VERSION
from kubenode.api.problems import problems
from kubenode.api.v1alpha1 import MemberCluster, Release, ReleasePipeline
from kubenode.api.v1alpha1.release import OnConflict, PayloadKind, PayloadObject
from kubenode.api.v1alpha1.releasepipeline import PipelineReason
from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.documents import UnreadableDocument, YamlDocument, files, read
from kubenode.cli.exits import Exit, Refusal, say
from kubenode.cli.options import ReportFormat
from kubenode.cli.tables import show_report, table
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists, NotFound
from kubenode.runtime.kube.lists import decoded
from kubenode.runtime.kube.paths import custom

PIPELINES, MEMBERS = ReleasePipeline.resource.plural, MemberCluster.resource.plural
RELEASES = Release.resource.plural
SHOWN = 4


@dataclass(frozen=True, slots=True)
class StartRequest:
    """The arguments of `kubenode release start`."""

    name: str
    files: Sequence[Path]
    pipeline: str
    force: bool
    dry_run: bool


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """A stage and the clusters that it would change, in order."""

    name: str
    approval: str
    clusters: Sequence[str]


@dataclass(frozen=True, slots=True)
class ReleasePlan:
    """What a release would do. problem: why it could not start, "" if it could."""

    digest: str
    objects: Sequence[str]
    stages: Sequence[PlannedStage]
    problem: str

    def to_json(self) -> dict[str, Any]:
        stages = [
            {"name": each.name, "approval": each.approval, "clusters": list(each.clusters)}
            for each in self.stages
        ]
        parts = {"digest": self.digest, "payload": list(self.objects), "stages": stages}
        return {**parts, "problem": self.problem}


async def plan_release(
    given: Sequence[Path],
    pipeline_name: str,
    output: ReportFormat,
    kubeconfig: str | None,
    context: str | None,
) -> Exit:
    """Print the plan. Return FINDING if the release could not start."""
    payload = read_payload(given)
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube, {PIPELINES, MEMBERS})
        pipeline = await _read_pipeline(kube, pipeline_name)
        members = [each async for each in decoded(kube, custom(MEMBERS), MemberCluster.from_server)]
    labels = {each.metadata.name: each.metadata.labels for each in members}
    plan = build_plan(payload, pipeline, labels)
    show_report(plan.to_json(), output, lambda: describe_plan(plan))
    return Exit.FINDING if plan.problem else Exit.FINE


def build_plan(
    payload: Sequence[PayloadObject],
    pipeline: ReleasePipeline,
    labels: Mapping[str, Mapping[str, str]],
) -> ReleasePlan:
    reason, message = find_problem(pipeline, labels)
    stages = [
        PlannedStage(stage.name, stage.approval, list_clusters(stage, labels))
        for stage in pipeline.spec.stages
    ]
    problem = "" if reason is PipelineReason.VALID else f"{reason}: {message}"
    objects = [each.key for each in payload]
    return ReleasePlan(compute_payload_digest(payload), objects, stages, problem)


def describe_plan(plan: ReleasePlan) -> Iterator[str]:
    """Yield the lines for people."""
    yield f"payload {plan.digest}: {', '.join(plan.objects)}"
    rows = [
        (each.name, len(each.clusters), each.approval, ", ".join(each.clusters))
        for each in plan.stages
    ]
    yield from table(("STAGE", "CLUSTERS", "APPROVAL", "ORDER"), rows)
    if plan.problem:
        yield f"it cannot start: {plan.problem}"


async def start_release(request: StartRequest, kubeconfig: str | None, context: str | None) -> None:
    """Create the Release. Raises Refusal."""
    release = build_release(request, read_payload(request.files))
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube, {PIPELINES, RELEASES})
        await _read_pipeline(kube, request.pipeline)
        try:
            query = {"dryRun": "All"} if request.dry_run else None
            await kube.create(custom(RELEASES), release, query=query)
        except AlreadyExists as error:
            raise Refusal(
                f"there is a Release {request.name} already, and a payload never changes:"
                " choose another name"
            ) from error
    suffix = " (dry run)" if request.dry_run else ""
    say(f"Release {request.name} created{suffix}; `kubenode release status {request.name}`")


def build_release(request: StartRequest, payload: Sequence[PayloadObject]) -> dict[str, Any]:
    conflict = OnConflict.FORCE if request.force else OnConflict.WAIT
    return {
        "apiVersion": API_VERSION,
        "kind": Release.__name__,
        "metadata": {"name": request.name},
        "spec": {
            "pipelineRef": request.pipeline,
            "payload": [each.to_dict() for each in payload],
            "digest": compute_payload_digest(payload),
            "onConflict": conflict,
        },
    }


def read_payload(given: Sequence[Path]) -> list[PayloadObject]:
    """Return the objects of the files in their order. Raises Refusal for one that is invalid."""
    try:
        documents = [document for path in files(given) for document in read(path)]
    except UnreadableDocument as error:
        raise Refusal(str(error)) from error
    payload = [_read_object(document) for document in documents]
    if not payload:
        raise Refusal("the files have no objects: write at least one")
    return payload


def _read_object(document: YamlDocument) -> PayloadObject:
    where = f"{document.where(())}: "
    kind = document.data.get("kind") if isinstance(document.data, Mapping) else None
    if kind not in list(PayloadKind):
        kinds = ", ".join(PayloadKind)
        raise Refusal(f"{where}kind: {kind!r} may not be released; write one of {kinds}")
    try:
        payload = PayloadObject.model_validate(document.data)
    except ValidationError as error:
        text = "; ".join(problems(error, PayloadObject)[:SHOWN])
        raise Refusal(f"{where}{text}") from error
    if text := find_invalid(payload):
        raise Refusal(f"{where}{text}")
    return payload


async def _read_pipeline(kube: Kube, name: str) -> ReleasePipeline:
    try:
        return await kube.get(custom(PIPELINES, name), ReleasePipeline.from_server)
    except NotFound as error:
        known = "`kubectl get releasepipelines` lists those that are"
        raise Refusal(f"there is no ReleasePipeline {name}; {known}") from error
