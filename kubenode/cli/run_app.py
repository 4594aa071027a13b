"""`kubenode run ...`: the programs. Their flags derive from the models of their settings."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from kubenode.cli.all_settings import EverythingFlags
from kubenode.cli.autoscaler_settings import AutoscalerFlags
from kubenode.cli.captain_settings import CaptainFlags
from kubenode.cli.command_group import CommandGroup
from kubenode.cli.defender_settings import DefenderFlags
from kubenode.cli.insight_settings import InsightFlags
from kubenode.cli.machine_settings import MachineFlags
from kubenode.cli.remedy_settings import RemedyFlags
from kubenode.cli.setting_flags import ProgramCommand, with_flags

run_app = CommandGroup(help="Run a program of KubeNode until it is stopped.")


@run_app.command("all", cls=ProgramCommand)
@with_flags(EverythingFlags)
def run_all(flags: Mapping[str, Any]) -> None:
    """Run the Remedy operator, Kube Defender and the Machine operator in one process.

    Kube Defender's API is served if --listen-port is given.
    """
    from kubenode.cli.run_all import everything

    everything(flags)


@run_app.command("remedy", cls=ProgramCommand)
@with_flags(RemedyFlags)
def run_remedy(flags: Mapping[str, Any]) -> None:
    """Run the Remedy operator, which evaluates rules and runs jobs. It needs Kube Defender to
    act.
    """
    from kubenode.cli.run_remedy import remedy

    remedy(flags)


@run_app.command("defender", cls=ProgramCommand)
@with_flags(DefenderFlags)
def run_defender(flags: Mapping[str, Any]) -> None:
    """Run Kube Defender, which grants or refuses permits for disruptive acts."""
    from kubenode.cli.run_defender import defender

    defender(flags)


@run_app.command("machine", cls=ProgramCommand)
@with_flags(MachineFlags)
def run_machine(flags: Mapping[str, Any]) -> None:
    """Run the Machine operator, which keeps machines and their components at the declared state."""
    from kubenode.cli.run_machine import machine

    machine(flags)


@run_app.command("autoscaler-provider", cls=ProgramCommand)
@with_flags(AutoscalerFlags)
def run_autoscaler_provider(flags: Mapping[str, Any]) -> None:
    """Run the externalgrpc provider of Cluster Autoscaler, which scales MachineSets."""
    from kubenode.cli.run_autoscaler import autoscaler_provider

    autoscaler_provider(flags)


@run_app.command("insight", cls=ProgramCommand)
@with_flags(InsightFlags)
def run_insight(flags: Mapping[str, Any]) -> None:
    """Run Insight, which stores the stream of all clusters and analyses it. It needs no cluster."""
    from kubenode.cli.insight_service import insight

    insight(flags)


@run_app.command("captain", cls=ProgramCommand)
@with_flags(CaptainFlags)
def run_captain(flags: Mapping[str, Any]) -> None:
    """Run Captain, which connects member clusters. It runs in one cluster, for all others."""
    from kubenode.cli.run_captain import captain

    captain(flags)


@run_app.command("agent", add_help_option=False, context_settings={"ignore_unknown_options": True})
def run_agent(
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[CONFIG]")] = None,
) -> None:
    """Run the node agent on this host."""
    from agent.main import main as agent  # and nothing else: it runs on every node

    raise typer.Exit(agent(arguments or []))
