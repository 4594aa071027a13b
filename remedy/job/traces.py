"""Emits a job's trace spans: those that end with a change of its status, and one for each act."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from kubenode.api.v1alpha1 import RemedyOperationJob
from kubenode.runtime.clock import Clock
from kubenode.runtime.controller.result import Result
from kubenode.runtime.telemetry import tracing
from kubenode.runtime.telemetry.about import about
from remedy.job.model import Act, Job, JobActResult
from remedy.job.spans import ended, fault_of, step_of


def saved(before: Job, after: Job, clock: Clock) -> None:
    """Emit the spans that end with the written change from `before` to `after`."""
    if tracing.on():
        for span in ended(before, after, clock.now()):
            tracing.emit(span)


def within_fault(
    reconcile: Callable[[str], Awaitable[Result]], find: Callable[[str], RemedyOperationJob | None]
) -> Callable[[str], Awaitable[Result]]:
    """Wrap `reconcile` so that its log lines name the job's node and trace."""

    async def named(key: str) -> Result:
        job = find(key)
        if job is None:
            return await reconcile(key)
        fault = fault_of(Job.of(job)) if tracing.on() else None
        with about(node=job.spec.node_name), tracing.within(fault):
            return await reconcile(key)

    return named


@contextmanager
def acting(job: Job, what: Act, clock: Clock) -> Iterator[tracing.Doing]:
    """Open a span for one act, as a child of the current step's span."""
    if not tracing.on():
        yield tracing.Doing()
        return
    fault, record = fault_of(job), job.running_record
    parent = fault if record is None else step_of(fault, record)
    with tracing.span(f"act {what}", clock, parent, **{"kubenode.job": job.name}) as doing:
        yield doing


def add_result(doing: tracing.Doing, answer: JobActResult | None) -> None:
    """Add the result of the act to its span: its error and the verdict, if any."""
    if answer is None:
        return
    if answer.error:
        doing.error = answer.error
    if answer.verdict is not None:
        doing.about["kubenode.allowed"] = answer.verdict.allowed
        doing.about["kubenode.reason"] = str(answer.verdict.reason)
