"""Commands of `kubenode`: their flags and help texts.

Nothing heavy is imported before a command runs, so that `--help` answers at once. Settings are
flags or KUBENODE_* variables. A flag that is not given is None here; its default is applied where
the value is used.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kubenode.cli.command_group import (
    SYSTEM_NAMESPACE,
    CommandGroup,
    GroupContext,
    GroupKubeconfig,
    GroupNamespace,
    store_cluster,
)
from kubenode.cli.component_app import component_app
from kubenode.cli.defender_app import CaFile, TokenFile, Url, defender_app
from kubenode.cli.demo_app import demo
from kubenode.cli.freeze_app import freeze_app
from kubenode.cli.insight_app import insight_app
from kubenode.cli.job_app import Story, approve, deny, job_app
from kubenode.cli.machine_app import machine_app
from kubenode.cli.member_app import member_app
from kubenode.cli.options import Context, Kubeconfig, Listing, Namespace, ReportFormat, duration
from kubenode.cli.providers_app import providers_app
from kubenode.cli.release_app import release_app
from kubenode.cli.rules_app import rules_app
from kubenode.cli.rules_cluster import record
from kubenode.cli.run_app import run_app
from kubenode.cli.verify_app import verify

app = CommandGroup(
    name="kubenode",
    help="Heals Kubernetes nodes by rules, under one risk control.",
    epilog="Exit codes: 0 fine, 1 finding or refusal, 2 usage, 3 cluster unreachable.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Shell(StrEnum):
    """The shells for which completion exists."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


explain_app = CommandGroup(help="Explain the decisions about a node, a job or a permit.")
app.add_typer(run_app, name="run")
app.add_typer(rules_app, name="rules")
app.add_typer(defender_app, name="defender")
app.add_typer(job_app, name="job")
app.command("approve")(approve)
app.command("deny")(deny)
app.command("demo")(demo)
app.add_typer(explain_app, name="explain")
_GROUPS = {"providers": providers_app, "machine": machine_app, "freeze": freeze_app}
_GROUPS |= {"component": component_app, "insight": insight_app, "member": member_app}
_GROUPS |= {"release": release_app}
for _name, _group in _GROUPS.items():
    app.add_typer(_group, name=_name)


def _print_version(requested: bool) -> None:
    if requested:
        version()
        raise typer.Exit


@app.callback()
def flags(
    ctx: typer.Context,
    version_: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version."
        ),
    ] = False,
    kubeconfig: GroupKubeconfig = None,
    context: GroupContext = None,
    namespace: GroupNamespace = None,
) -> None:
    """Heal Kubernetes nodes by rules, under one risk control."""
    store_cluster(ctx, kubeconfig, context, namespace)


@app.command()
def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed

    typer.echo(f"kubenode {installed('kubenode')}")


@app.command()
def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="Shell: bash, zsh or fish.")],
) -> None:
    """Print the completion script of a shell.

    Example: `source <(kubenode completion bash)`
    """
    import os

    os.environ["_KUBENODE_COMPLETE"] = f"source_{shell.value}"
    try:
        app(prog_name="kubenode", args=[])  # typer prints the script and exits
    finally:
        del os.environ["_KUBENODE_COMPLETE"]


@app.command()
def status(
    output: Annotated[
        ReportFormat,
        typer.Option("--output", "-o", help="Output format; wide shows every node and job."),
    ] = ReportFormat.TABLE,
    namespace: Namespace = SYSTEM_NAMESPACE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show which nodes have a fault, what is done, what waits and what to do.

    Example: `kubenode status --context prod`
    """
    from kubenode.cli.exits import run
    from kubenode.cli.status import status_command

    raise typer.Exit(run(status_command(kubeconfig, context, namespace, output)))


@app.command()
def watch(
    every: Annotated[
        str,
        typer.Option("--every", metavar="DURATION", help="Time between two reads, at least 1s."),
    ] = "5s",
    namespace: Namespace = SYSTEM_NAMESPACE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show `kubenode status` on the whole screen, and what changes, until it is interrupted.

    Without a terminal it prints the status once and then a line for each change. A large cluster is
    read less often: reading takes at most a twentieth of the time.

    Example: `kubenode watch --context prod --every 10s`
    """
    from kubenode.cli.exits import run
    from kubenode.cli.watch import watch_command

    seconds = max(duration(every, "--every").total_seconds(), 1.0)
    run(watch_command(kubeconfig, context, namespace, seconds))


@app.command()
def dashboard(
    url: Annotated[
        str,
        typer.Option(
            "--url", metavar="URL", help="Address of the dashboard; default: forward a port to it."
        ),
    ] = "",
    ca_file: Annotated[
        Path | None,
        typer.Option(
            "--ca-file", metavar="FILE", help="Authorities that sign the certificate of --url."
        ),
    ] = None,
    service_account: Annotated[
        str,
        typer.Option(
            "--service-account",
            metavar="[NAMESPACE/]NAME",
            help="Log in as this service account; default: with the token of the kubeconfig.",
        ),
    ] = "",
    port: Annotated[
        int,
        typer.Option("--port", metavar="PORT", min=0, max=65535, help="Local port; 0: a free one."),
    ] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address and start no browser.")
    ] = False,
    namespace: Namespace = SYSTEM_NAMESPACE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Open the dashboard of a cluster in the browser, logged in as you, until it is interrupted.

    It forwards a local port to a pod of Kube Defender, as `kubectl port-forward` does, and logs in
    with the bearer token of the kubeconfig. Credentials without a token, such as a client
    certificate, need --service-account. The printed address lets in one browser, once.

    Example: `kubenode dashboard --context prod`
    """
    from kubenode.cli.dashboard_command import DashboardRequest, dashboard_command
    from kubenode.cli.exits import run

    wanted = DashboardRequest(namespace, url, ca_file, service_account, port, not no_browser)
    run(dashboard_command(kubeconfig, context, wanted))


@app.command()
def doctor(
    receivers_file: Annotated[
        str | None,
        typer.Option(
            "--receivers-file",
            metavar="FILE",
            help="The receivers file of the Remedy operator, to check it too.",
        ),
    ] = None,
    output: Annotated[
        ReportFormat,
        typer.Option("--output", "-o", help="Output format; json and yaml are for programs."),
    ] = ReportFormat.TABLE,
    namespace: Namespace = SYSTEM_NAMESPACE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Check whether KubeNode can work in a cluster, and print what to do. Writes nothing.

    Ends with 1 if there is a problem. Example: `kubenode doctor -o json`
    """
    from kubenode.cli.doctor import doctor_command
    from kubenode.cli.exits import run

    raise typer.Exit(run(doctor_command(kubeconfig, context, namespace, receivers_file, output)))


@app.command()
def install(kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Create or update the custom resource definitions in a cluster."""
    from kubenode.cli.exits import run
    from kubenode.cli.install import install as work

    run(work(kubeconfig, context))


@app.command()
def uninstall(
    timeout: Annotated[
        str,
        typer.Option(
            "--timeout",
            metavar="DURATION",
            help="Time to wait until the objects of each kind are deleted.",
        ),
    ] = "10m",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be deleted; delete nothing.")
    ] = False,
    namespace: Namespace = SYSTEM_NAMESPACE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Remove KubeNode from a cluster: first its objects, then kinds, namespaces and marks on nodes.

    Run it while the programs run: they undo what they changed on nodes. Stop the programs, then run
    it again: the second run removes the rest. It prints the cluster and what it deletes, and asks.

    Example: `kubenode uninstall --context test --dry-run`
    """
    from kubenode.cli.exits import run
    from kubenode.cli.uninstall import UninstallRequest
    from kubenode.cli.uninstall import uninstall as work

    longest = duration(timeout, "--timeout").total_seconds()
    run(work(kubeconfig, context, UninstallRequest(longest, namespace, yes, dry_run)))


@app.command()
def crds() -> None:
    """Print the custom resource definitions as YAML, for `kubectl apply -f -`."""
    from kubenode.api.crd import files

    typer.echo("---\n".join(files().values()), nl=False)


app.command("record")(record)
app.command("verify")(verify)


def _event_classes() -> list[str]:
    """Return the values that a shell completes."""
    from kubenode.api.v1alpha1.hostevent import HostEventClass

    return list(HostEventClass)


@app.command()
def events(
    node: Annotated[
        str, typer.Option("--node", metavar="NAME", help="Show only events of this node.")
    ] = "",
    class_: Annotated[
        list[str] | None,
        typer.Option(
            "--class",
            metavar="CLASS",
            autocompletion=_event_classes,
            help="Show only events of this class; repeatable.",
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Show closed events too; they are stored for a day.")
    ] = False,
    unresolved: Annotated[
        bool, typer.Option("--unresolved", help="Show only events whose node is unknown.")
    ] = False,
    output: Annotated[Listing, typer.Option("--output", "-o")] = Listing.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """List HostEvents: alerts about hosts, and what clouds have planned or reported."""
    from kubenode.cli.exits import run
    from kubenode.cli.host_events import list_events as work

    raise typer.Exit(
        run(work(kubeconfig, context, node, class_ or [], everything, unresolved, output))
    )


PauseScope = Annotated[
    str,
    typer.Option("--scope", metavar="SCOPE",
                 help="Scope: cluster, node=NAME, zone=VALUE, rack=VALUE, pool=VALUE"
            " or LABEL=VALUE."),
]  # fmt: skip
PolicyName = Annotated[
    str | None,
    typer.Option(
        "--policy", metavar="NAME", help="Apply to this DefenderPolicy only; default: all."
    ),
]


@app.command()
def pause(
    scope: PauseScope = "cluster",
    for_: Annotated[
        str | None,
        typer.Option(
            "--for", metavar="DURATION", help="End the pause after this time, such as 2h."
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="TIME",
            help="End the pause at this time: 16:00, or 2026-11-21T16:00Z.",
        ),
    ] = None,
    why: Annotated[
        str,
        typer.Option("--why", metavar="TEXT", help="Reason of the pause; every refusal shows it."),
    ] = "",
    now: Annotated[
        bool,
        typer.Option("--now", help="Revoke permits of jobs that have done nothing irreversible."),
    ] = False,
    policy: PolicyName = None,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="Accept a scope without nodes.")
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Pause disruptive acts in the cluster or a part of it, until it is resumed.

    What holds a permit goes on, unless --now. Uncordoning, verifying and giving back go on always.

    Example: `kubenode pause --scope zone=zone-a --for 2h --why "switch is replaced"`
    """
    from kubenode.cli.exits import explained, run
    from kubenode.cli.pause import PauseRequest, end_from, pause_command, scope_from
    from kubenode.runtime.clock import SystemClock

    with explained():
        end = end_from(for_, until, SystemClock().now())
        request = PauseRequest(scope_from(scope), end, why, now, policy, allow_empty)
    raise typer.Exit(run(pause_command(kubeconfig, context, request)))


@app.command()
def resume(
    scope: PauseScope = "cluster",
    everything: Annotated[
        bool, typer.Option("--all", help="End every pause of every scope.")
    ] = False,
    policy: PolicyName = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """End a pause. Rules are evaluated anew; held acts are not repeated.

    Example: `kubenode resume --scope zone=zone-a`
    """
    from kubenode.cli.exits import explained, run
    from kubenode.cli.pause import resume_command, scope_from

    with explained():
        which = None if everything else scope_from(scope)
    raise typer.Exit(run(resume_command(kubeconfig, context, which, policy)))


@app.command()
def diagnose(
    node: Annotated[str, typer.Argument(metavar="NODE", help="Node whose host is diagnosed.")],
    part: Annotated[
        list[str] | None,
        typer.Option(
            "--part", help="Part of the bundle, such as dmesg or units; repeatable. Default: all."
        ),
    ] = None,
    wait: Annotated[
        str,
        typer.Option(
            "--wait", metavar="DURATION", help="Time to wait for the answer of the agent."
        ),
    ] = "3m",
    operator: Annotated[
        str | None,
        typer.Option("--operator", metavar="URL", help="Fetch the bundle from the operator."),
    ] = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="File to which the bundle is written."),
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Collect diagnostics of a host now, without a job, and print where they are stored."""
    from kubenode.cli.diagnosis import DiagnosticsRequest
    from kubenode.cli.diagnosis import diagnose as work
    from kubenode.cli.exits import run

    longest = duration(wait, "--wait")
    wish = DiagnosticsRequest(node, tuple(part or ()), longest, operator, token_file, ca_file, out)
    raise typer.Exit(run(work(kubeconfig, context, wish)))


@app.command()
def bundle(
    namespace: Namespace = SYSTEM_NAMESPACE,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="File to write; default: kubenode-TIME.tar.gz."),
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Collect the state of KubeNode in a cluster for support. No Secret is read.

    Versions, our objects, nodes, events, leases, logs and metrics of our pods, in a file.
    """
    from kubenode.cli.bundle import bundle as work
    from kubenode.cli.exits import run

    raise typer.Exit(run(work(kubeconfig, context, namespace, out)))


@explain_app.command("node")
def explain_node(
    name: str,
    url: Url = "",
    token_file: TokenFile = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Explain why a node is repaired or not: rules, their facts, jobs and holds.

    With --url Kube Defender is asked for the place in its queue.

    Example: `kubenode explain node NODE`
    """
    from kubenode.cli.defender_source import DefenderAddress
    from kubenode.cli.exits import run
    from kubenode.cli.explain_node import explain_node as work

    raise typer.Exit(run(work(name, kubeconfig, context, DefenderAddress(url, token_file))))


@explain_app.command("job")
def explain_job(
    name: str,
    audit: Annotated[
        Path | None,
        typer.Option(
            "--audit", metavar="FILE", help="Audit log to read: past holds and refused decisions."
        ),
    ] = None,
    output: Annotated[
        Story, typer.Option("--output", "-o", help="Output format; json is for programs.")
    ] = Story.TEXT,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Explain a job: why it was created, what happened, why it waits, and what you can do.

    Example: `kubenode explain job JOB`
    """
    from kubenode.cli.exits import run
    from kubenode.cli.explain_job import explain_job as work

    raise typer.Exit(run(work(name, kubeconfig, context, audit, output is Story.JSON)))


@explain_app.command("permit")
def explain_permit(name: str, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Explain a permit: its holder, its age, the scopes in which it counts, and what the holder
    does.
    """
    from kubenode.cli.exits import run
    from kubenode.cli.explain_permit import explain_permit as work

    raise typer.Exit(run(work(name, kubeconfig, context)))
