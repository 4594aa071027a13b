"""`kubenode machine orphans`: instances that belong to no Machine."""

from datetime import datetime, timedelta
from typing import Any

import typer

from kubenode.cli.cluster import connected
from kubenode.cli.exits import Exit
from kubenode.cli.lengths import length
from kubenode.cli.machine_tokens import refusals
from kubenode.cli.options import Listing
from kubenode.cli.tables import show
from machine.orphans.model import OrphanRecord
from machine.orphans.records import OrphanStore

COLUMNS = {
    "INSTANCE": "providerID",
    "PROVIDER": "provider",
    "MACHINE": "machine",
    "AGE": "age",
    "ABSENT": "absent",
    "HELD": "held",
}
WIDE = {"ADDRESSES": "addresses", "SIGHTING": "sighting", "FOUND": "found"}
FINDING_ONLY = "it is a finding for people"


async def orphans_command(output: Listing, kubeconfig: str | None, context: str | None) -> Exit:
    """List orphans. Return FINDING if there are any."""
    async with connected(kubeconfig, context) as kube:
        with refusals(""):
            _, records = await OrphanStore(kube).read()
        now = kube.clock.now()
    if not records and output in (Listing.TABLE, Listing.WIDE):
        typer.echo("no orphans")
    else:
        show(
            [orphan_row(record, now) for record in records], COLUMNS, WIDE, output, key="providerID"
        )
    return Exit.FINDING if records else Exit.FINE


def orphan_row(record: OrphanRecord, now: datetime) -> dict[str, Any]:
    """Return the row of an orphan.

    The value of `absent` is how long nothing in the cluster has referred to the instance.
    """
    return {
        "providerID": record.provider_id,
        "provider": record.provider,
        "machine": record.machine,
        "age": "" if record.created_at is None else length(now - record.created_at),
        "absent": length(timedelta(seconds=record.absent_seconds)),
        "held": record.held or record.sighting or FINDING_ONLY,
        "addresses": " ".join(record.addresses),
        "sighting": record.sighting,
        "found": "" if record.found_at is None else length(now - record.found_at),
    }
