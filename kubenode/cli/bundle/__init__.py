"""`kubenode bundle`: what somebody who helps from afar must see, in one file without secrets."""

from datetime import UTC
from pathlib import Path

import typer

from kubenode.api.meta import format_time
from kubenode.cli.bundle.collection import Gathering
from kubenode.cli.bundle.contents import BundleContents
from kubenode.cli.cluster import connected
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.tables import table


async def bundle(
    kubeconfig: str | None, context: str | None, namespace: str, out: Path | None
) -> Exit:
    """Collect a diagnostics bundle of KubeNode in the cluster and write it to a file.

    Raises Refusal if the file cannot be written.
    """
    async with connected(kubeconfig, context) as kube:
        now = kube.clock.now()
        file = out or Path(f"kubenode-{now.astimezone(UTC).strftime('%Y%m%dt%H%M%Sz')}.tar.gz")
        contents = BundleContents({"made": format_time(now), "namespace": namespace})
        await Gathering(kube, namespace, contents).all()
    try:
        size = contents.write(file, now.timestamp())
    except OSError as error:
        raise Refusal(f"--out {file}: {error.strerror or error}: name a file elsewhere") from error
    for line in describe_bundle(contents):
        typer.echo(line)
    typer.echo(f"wrote {file}, {size:,} bytes; look through it before you hand it on")
    return Exit.FINE


def describe_bundle(contents: BundleContents) -> list[str]:
    """Describe for a person what the bundle contains and what is missing. Pure."""
    manifest = contents.manifest()
    rows = [
        (entry["file"], f"{entry['bytes']:,}", entry.get("note", "")) for entry in manifest["files"]
    ]
    lines = table(("HOLDS", "BYTES", "NOTE"), rows)
    if manifest["missing"]:
        lacking = [(entry["what"], entry["why"]) for entry in manifest["missing"]]
        lines += ["", *table(("LACKS", "WHY"), lacking)]
    return lines
