"""`kubenode demo`: its flags. As in kubenode.cli.app, nothing heavy is imported here."""

from typing import Annotated

import typer


def demo(
    scenario: Annotated[
        str, typer.Option(help="Scenario: mixed, storm, rollout, quiet or release.")
    ] = "mixed",
    nodes: Annotated[
        int | None,
        typer.Option(min=6, max=20_000, help="Simulated nodes; default 300, storm 150."),
    ] = None,
    for_: Annotated[
        str | None,
        typer.Option("--for", metavar="DURATION", help="Stop after this time, such as 60s or 10m."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the faults; the same seed gives the same faults.")
    ] = None,
    speed: Annotated[
        float | None,
        typer.Option(
            min=1,
            max=100,
            help="Divide every duration of rules and policies by this; default 20, storm 50.",
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print no terminal view; end with one line of JSON.")
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the API server; 0 selects a free port.")
    ] = 0,
    seed_history: Annotated[
        str | None,
        typer.Option(
            metavar="DAYS", help="Fill Insight with a simulated past of this length, such as 90d."
        ),
    ] = None,
) -> None:
    """Run the whole system on an embedded API server with a simulated fleet."""
    from kubenode.cli.exits import explained

    with explained():
        from kubenode.cli.simulation import commands

        commands.demo(
            scenario=scenario,
            nodes=nodes,
            lasts=for_,
            seed=seed,
            speed=speed,
            json=json,
            port=port,
            seed_history=seed_history,
        )
