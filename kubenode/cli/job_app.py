"""Commands of `kubenode job`, and `kubenode approve` and `kubenode deny`.

As in kubenode.cli.app, nothing heavy is imported here.
"""

from enum import StrEnum
from typing import Annotated, Any

import typer

from kubenode.cli.command_group import CommandGroup
from kubenode.cli.options import Context, Kubeconfig, Listing

job_app = CommandGroup(
    help="Show, start and continue jobs. A job handles one incident on a node.",
)
Job = Annotated[str, typer.Argument(metavar="JOB", help="Name of a RemedyOperationJob.")]
Note = Annotated[
    str, typer.Option("--note", metavar="TEXT", help="Note that is stored with the decision.")
]


class RunMode(StrEnum):
    """The modes that a job may have."""

    ENFORCE = "Enforce"
    APPROVE = "Approve"
    DRY_RUN = "DryRun"


class Story(StrEnum):
    """How a job's story is told."""

    TEXT = "text"
    JSON = "json"


class Text(StrEnum):
    """The object as YAML or JSON, or its name."""

    YAML = "yaml"
    JSON = "json"
    NAME = "name"


def _phases() -> list[str]:
    """Return the values that a shell completes."""
    from kubenode.api.v1alpha1.remedyoperationjob import JobPhase

    return list(JobPhase)


def _say(kubeconfig: str | None, context: str | None, *arguments: Any) -> None:
    from kubenode.cli.exits import run
    from kubenode.cli.job_decisions import say

    raise typer.Exit(run(say(kubeconfig, context, *arguments)))


def approve(
    job: Job, note: Note = "", kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    """Approve a job that waits for approval. It then requests a permit and acts within the limits.

    Example: `kubenode approve JOB --note "disk is replaced"`
    """
    _say(kubeconfig, context, job, "Approve", note)


def deny(job: Job, note: Note = "", kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Deny a job that waits for approval or a permit. No other job follows while the fault lasts.

    Example: `kubenode deny JOB --note "planned work"`
    """
    _say(kubeconfig, context, job, "Deny", note)


@job_app.command("next")
def next_(
    job: Job,
    rung: Annotated[
        str,
        typer.Option(
            "--rung", metavar="RUNG", help="Rung to continue with; default: the next one."
        ),
    ] = "",
    note: Note = "",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Continue a job that needs a person with the next rung of its ladder."""
    _say(kubeconfig, context, job, "Next", note, rung)


@job_app.command("retry")
def retry(
    job: Job, note: Note = "", kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    """Repeat the current rung of a job that needs a person, from its first step."""
    _say(kubeconfig, context, job, "Retry", note)


@job_app.command("close")
def close(
    job: Job, note: Note = "", kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    """Close a job that needs a person as Failed, and remove its cordon and marks from the node."""
    _say(kubeconfig, context, job, "Close", note)


@job_app.command("cancel")
def cancel(job: Job, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Cancel any open job, and remove its cordon and marks from the node. Works while the
    operator is down.
    """
    from kubenode.cli.exits import run
    from kubenode.cli.job_decisions import cancel as work

    raise typer.Exit(run(work(kubeconfig, context, job)))


@job_app.command("run")
def run_job(
    node: Annotated[str, typer.Argument(metavar="NODE")],
    remedier: Annotated[
        str, typer.Option("--remedier", metavar="RULE", help="Rule whose ladder the job follows.")
    ],
    from_: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="RUNG",
            help="Name or number of the first rung; default: the first of the ladder.",
        ),
    ] = "",
    mode: Annotated[
        RunMode | None, typer.Option("--mode", help="Mode of the job; default: that of the rule.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Act although the fault of the rule is not observed.")
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Start a job on a node as if the rule matched.

    Your word stands in for the rule's evidence; its guards, Kube Defender and the proof hold as for
    every job. A node that has an open job gets no second one.

    Example: `kubenode job run NODE --remedier RULE --mode DryRun`
    """
    from kubenode.api.v1alpha1 import Mode
    from kubenode.cli.exits import run
    from kubenode.cli.job_run import JobRequest, start

    wanted = Mode(mode.value) if mode is not None else None
    request = JobRequest(node, remedier, from_, wanted, yes)
    raise typer.Exit(run(start(kubeconfig, context, request)))


@job_app.command("list")
def list_(
    node: Annotated[
        str, typer.Option("--node", metavar="NODE", help="Show only jobs of this node.")
    ] = "",
    phase: Annotated[
        list[str] | None,
        typer.Option(
            "--phase",
            metavar="PHASE",
            autocompletion=_phases,
            help="Show only jobs in this phase, upper or lower case; repeatable.",
        ),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Show only open jobs.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Print each change after the list.")
    ] = False,
    output: Annotated[
        Listing,
        typer.Option("--output", "-o", help="Output format; wide shows why each job waits."),
    ] = Listing.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """List jobs, those that need a person first.

    Example: `kubenode job list --open --watch`
    """
    from kubenode.cli.exits import explained, run
    from kubenode.cli.job_list import job_filter, list_jobs
    from kubenode.cli.jsonpath import OUTPUT_TEMPLATE

    if watch and OUTPUT_TEMPLATE.get() is not None:
        text = "jsonpath is for one list: leave out --watch, or write -o json"
        raise typer.BadParameter(text, param_hint="--output")
    with explained():
        selection = job_filter(node, phase or [], only_open=open_)
    raise typer.Exit(run(list_jobs(kubeconfig, context, selection, output, watch=watch)))


@job_app.command("show")
def show(
    job: Job,
    output: Annotated[Text, typer.Option("--output", "-o")] = Text.YAML,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Print the job object. See also `kubenode explain job`."""
    from kubenode.cli.exits import run
    from kubenode.cli.job_list import show_job

    work = show_job(kubeconfig, context, job, Listing(output.value))
    raise typer.Exit(run(work))
