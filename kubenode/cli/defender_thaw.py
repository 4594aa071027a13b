"""`kubenode defender thaw`: ends the freeze after a control path outage.

The thaw is written with its author and reason to the policies that show the freeze. So it works
while Kube Defender is down, and it survives a restart.
"""

import typer

from defender.server.thaw import NotFrozen, write_thaw
from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.pause import LONGEST_WHY, caller, shown


async def thaw_command(kubeconfig: str | None, context: str | None, why: str) -> Exit:
    """Write the thaw.

    Raises Refusal if nothing is frozen, or if the reason is empty or too long.
    """
    if not why.strip() or len(why) > LONGEST_WHY:
        raise Refusal(f"--why: write 1 to {LONGEST_WHY} characters", Exit.USAGE)
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube)
        try:
            done = await write_thaw(kube, await caller(kube), why.strip())
        except NotFrozen as error:
            text = "the control path is not frozen: `kubenode defender status` says what holds acts"
            raise Refusal(text) from error
    typer.echo(f"thawed what was frozen since {shown(done.thaw.frozen_since)}, by {done.thaw.by}")
    typer.echo(f"policies: {', '.join(done.policies)}")
    typer.echo("open breakers go on holding their scopes: kubenode defender status")
    return Exit.FINE
