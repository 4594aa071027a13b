"""Builds controllers with a queue and metrics, as programs with several controllers need them."""

from kubenode.runtime.clock import Clock
from kubenode.runtime.controller.controller import WORKERS, Controller, Reconcile
from kubenode.runtime.controller.queue import WorkQueue
from kubenode.runtime.fence import Fence
from kubenode.runtime.telemetry.metrics import RuntimeMetrics


def build_controller(
    name: str,
    reconcile: Reconcile,
    *,
    clock: Clock,
    fence: Fence,
    metrics: RuntimeMetrics | None,
    workers: int = WORKERS,
    queue: WorkQueue[str] | None = None,
    key_is: str = "key",
) -> Controller:
    """Build a controller whose queue and reconciles are measured.

    metrics: None for none
    queue: one with other rates than the default
    """
    queue = queue if queue is not None else WorkQueue(clock)  # an empty queue is false
    return Controller(
        name,
        reconcile,
        workers=workers,
        queue=queue,
        clock=clock,
        fence=fence,
        meter=metrics.controller(name, queue) if metrics is not None else None,
        key_is=key_is,
    )
