"""The stream as a part of the programs that run the Remedy operator."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kubenode.api.v1alpha1 import Permit
from kubenode.cli.stream_settings import StreamFlags
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.process import Part
from kubenode.runtime.stream.delivery import HttpBatchSender
from kubenode.runtime.stream.exporter import StreamExporter

if TYPE_CHECKING:
    from kubenode.cli.program import ProgramContext
    from remedy.operator import RemedyOperator


@dataclass(frozen=True, slots=True)
class StreamParts:
    """The parts of the stream: those of the leader, and those of every replica."""

    parts: tuple[Part, ...] = ()
    ground: tuple[Part, ...] = ()


def stream_parts(
    operator: "RemedyOperator", context: "ProgramContext", settings: StreamFlags
) -> StreamParts:
    """Return the parts of the stream, none without --stream-url. Raises CannotStart."""
    if not settings.stream_url:
        return StreamParts()
    kube, clock = context.kube, context.clock
    permits: Informer[Any] = context.informers(
        kube,
        paths.custom(Permit.resource.plural),
        Permit.from_server,
        clock=clock,
        name="permits of the stream",
    )
    exporter = StreamExporter(
        operator.informers.jobs,
        permits,
        operator.informers.nodes,
        HttpBatchSender(settings.stream_receiver),
        settings.stream_identity,
        clock,
        context.metrics.registry,
        settings.stream_outbox,
    )
    return StreamParts((exporter,), (permits,))
