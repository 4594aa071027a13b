"""Times at which clusters may start, by the windows of a pipeline and of its stages. Pure.

The windows are those of the pipeline as it is now, so that people can close or open them during a
release. If the pipeline or its stage is gone, those at the start of the release apply.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from captain.releases.model import ReleaseWorld
from kubenode.api.meta import format_time
from kubenode.api.recurrence import DUSK, find_state
from kubenode.api.v1alpha1.release import ReleaseSnapshot
from kubenode.api.v1alpha1.releasepipeline import PipelineStage
from kubenode.api.v1alpha1.window import TimeWindow


def find_closed_window(
    settings: PipelineStage, snapshot: ReleaseSnapshot, world: ReleaseWorld
) -> str:
    """Return why no cluster of the stage may start and until when, "" if one may.

    settings: the stage as it was at the start.
    """
    closed = list(_list_closed(settings, snapshot, world))
    if not closed:
        return ""
    opens_at, subject = max(closed)
    until = f" before {format_time(opens_at)}" if opens_at < DUSK else ""
    return f"no window of {subject} is open{until}"


def _list_closed(
    settings: PipelineStage, snapshot: ReleaseSnapshot, world: ReleaseWorld
) -> Iterator[tuple[datetime, str]]:
    for subject, windows in _list_windows(settings, snapshot, world):
        is_open, change = find_state(windows, world.now)
        if windows and not is_open:
            yield change or DUSK, subject


def _list_windows(
    settings: PipelineStage, snapshot: ReleaseSnapshot, world: ReleaseWorld
) -> Iterator[tuple[str, Sequence[TimeWindow]]]:
    """Yield the windows of the pipeline and of the stage, each with what they belong to."""
    pipeline = snapshot.windows if world.pipeline is None else world.pipeline.spec.windows
    stages = () if world.pipeline is None else world.pipeline.spec.stages
    stage = next((each for each in stages if each.name == settings.name), settings)
    yield "the pipeline", pipeline
    yield f"stage {stage.name}", stage.windows
