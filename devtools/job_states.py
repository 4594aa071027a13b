"""Writes docs/reference/states.md: the phases of jobs, from the table of transitions in the code.

`python -m devtools.job_states [--check]`
"""

import sys

from devtools import generators
from kubenode.api.v1alpha1 import JobPhase
from remedy.job.step import EDGES

FILE = generators.ROOT / "docs/reference/states.md"

WHEN: dict[tuple[JobPhase, JobPhase], str] = {
    (JobPhase.PENDING, JobPhase.AWAITING_APPROVAL): "mode Approve, or approval required",
    (JobPhase.PENDING, JobPhase.AWAITING_PERMIT): "mode Enforce, or a rung that a person chose",
    (JobPhase.PENDING, JobPhase.RUNNING): "the rung disrupts nothing",
    (JobPhase.PENDING, JobPhase.SHADOWED): "mode DryRun: what would have been",
    (JobPhase.AWAITING_APPROVAL, JobPhase.AWAITING_PERMIT): "approved",
    (JobPhase.AWAITING_PERMIT, JobPhase.RUNNING): "permit held, fault plainly there, no guard",
    (
        JobPhase.AWAITING_PERMIT,
        JobPhase.NEEDS_HUMAN,
    ): "left a machine off, and it does not run again",
    (JobPhase.RUNNING, JobPhase.VERIFYING): "all steps of the rung done, or the rest spared",
    (JobPhase.RUNNING, JobPhase.AWAITING_PERMIT): "next rung, or yielding to a budget",
    (JobPhase.RUNNING, JobPhase.NEEDS_HUMAN): "stopped, or no rung left",
    (JobPhase.RUNNING, JobPhase.FAILED): "the same, with onGiveUp Release",
    (JobPhase.VERIFYING, JobPhase.SUCCEEDED): "proven, or a ladder that only notifies is done",
    (JobPhase.VERIFYING, JobPhase.AWAITING_PERMIT): "not proven in time: next rung",
    (JobPhase.VERIFYING, JobPhase.NEEDS_HUMAN): "not proven in time, no rung left",
    (JobPhase.VERIFYING, JobPhase.FAILED): "the same, with onGiveUp Release",
    (JobPhase.NEEDS_HUMAN, JobPhase.PENDING): "a person says next or retry",
    (JobPhase.NEEDS_HUMAN, JobPhase.SUCCEEDED): "proven after all",
    (JobPhase.NEEDS_HUMAN, JobPhase.FAILED): "a person says close",
}
"""When each transition happens, without those to Cancelled."""

PAGE = """# States of a job

<!-- written by `python -m devtools.job_states`: do not edit -->

A RemedyOperationJob is in one phase at a time (`status.phase`) and moves along these edges only;
the code takes them from the same table. Whatever moves it undoes what it made before it closes.

```mermaid
stateDiagram-v2
{edges}
```

From every open phase a job goes to Cancelled: when the fault goes by itself before anything was
done that cannot be undone, when a person denies, cancels, or uncordons the node, when a stronger
rule takes over, when the job or the node is deleted (unless the job itself replaced the node), and
when a planned event was called off. While a host or a provider has been asked for something and has
not answered, only the loss of the node is noticed.

| from | to | when |
| --- | --- | --- |
{rows}
"""


def page() -> str:
    edges = [(a, b) for a in JobPhase for b in JobPhase if b in EDGES[a]]
    shown = [(a, b) for a, b in edges if b is not JobPhase.CANCELLED]
    lines = [f"    [*] --> {JobPhase.PENDING}"]
    lines += [f"    {a} --> {b}: {WHEN[a, b]}" for a, b in shown]
    lines += [f"    {a} --> {JobPhase.CANCELLED}" for a, b in edges if b is JobPhase.CANCELLED]
    lines += [f"    {phase} --> [*]" for phase in JobPhase if not EDGES[phase]]
    return PAGE.format(
        edges="\n".join(lines),
        rows="\n".join(f"| {a} | {b} | {WHEN[a, b]} |" for a, b in shown),
    )


def main(arguments: list[str]) -> int:
    return generators.run({FILE: page()}, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
