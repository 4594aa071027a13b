"""`kubenode defender fleet forget`: record that a cluster has left the fleet for good."""

import typer

from defender.replicas.charge.note import NoteStore
from defender.replicas.fleet import wire
from defender.replicas.fleet.budget import ANNOTATION, NAME
from defender.replicas.fleet.departure import ANNOTATION as DEPARTURE
from defender.replicas.fleet.departure import Departure
from kubenode.cli.cluster import connected
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.pause import LONGEST_WHY, caller
from kubenode.runtime.kube.errors import Conflict


async def forget_command(
    kubeconfig: str | None, context: str | None, namespace: str, cluster: str, why: str
) -> Exit:
    """Request that Kube Defender forgets a cluster.

    Raises Refusal if no group knows the cluster, or if the reason is empty or too long.
    """
    if not why.strip() or len(why) > LONGEST_WHY:
        raise Refusal(f"--why: write 1 to {LONGEST_WHY} characters", Exit.USAGE)
    async with connected(kubeconfig, context) as kube:
        groups = wire.read_known(await NoteStore(kube, namespace, NAME, ANNOTATION).read())
        there = sorted({name for known in groups.values() for name in known.roster})
        if cluster not in there:
            known = ", ".join(there) or "none"
            raise Refusal(f"no cluster {cluster} is remembered in {namespace}; there are: {known}")
        note = NoteStore(kube, namespace, NAME, DEPARTURE)
        if await note.read():
            raise Refusal("another cluster is being forgotten: try again in a minute")
        departure = Departure(cluster, await caller(kube), why.strip())
        try:
            await note.write(departure.text)
        except Conflict as error:
            raise Refusal("Kube Defender wrote at the same time: try again") from error
    typer.echo(f"asked Kube Defender to forget cluster {cluster}: done within a minute if it is")
    typer.echo("silent. Its log and its audit say whether it was, or why not")
    return Exit.FINE
