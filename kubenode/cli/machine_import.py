"""`kubenode machine import`: imports hosts over SSH, or prints a script or cloud-init data."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.exits import Exit, Refusal, say
from kubenode.cli.machine_import_cluster import cluster_findings, cluster_of, made
from kubenode.cli.machine_import_package import read_packages
from kubenode.cli.machine_import_rows import ImportRow, read_rows, row_of
from kubenode.cli.machine_importer import (
    TOKEN_SECONDS,
    Importer,
    ImportOutcome,
    ImportResult,
    import_all,
)
from kubenode.cli.machine_ssh import connect_ssh, require_asyncssh
from kubenode.cli.machine_tokens import live_token, not_wanted, refusals
from kubenode.cli.options import Plain
from kubenode.cli.tables import table
from kubenode.runtime.kube.client import Kube
from machine.access import PLURAL
from machine.bootstrap.controller import need_of
from machine.bootstrap.step import Need
from machine.hostimport.cloudinit import cloud_config
from machine.hostimport.join_settings import Download, Joining
from machine.hostimport.preflight import Level
from machine.hostimport.script import join_script

SHA256_DIGITS = 64


@dataclass(frozen=True, slots=True)
class How:
    """Options that hold for all hosts of one command.

    seconds: timeout for each host.
    at_once: hosts that are imported at the same time.
    """

    packages: Sequence[Path]
    download: Download
    server: str
    namespace: str
    seconds: float
    at_once: int
    output: Plain


def given_rows(
    host: str, file: Path | None, given: Mapping[str, Any], labels: Sequence[str]
) -> list[ImportRow]:
    """Return the rows of HOST or of the file, exactly one of which must be given.

    given: flags; they are defaults for the hosts of a file.

    Raises Refusal.
    """
    if bool(host) is (file is not None):
        raise Refusal("name one HOST, or many by --file HOSTS.yaml", Exit.USAGE)
    if wrong := [label for label in labels if "=" not in label]:
        raise Refusal(f"--label {wrong[0]}: no KEY=VALUE", Exit.USAGE)
    flags = {**given, "labels": dict(label.split("=", 1) for label in labels)}
    if file is None:
        return [row_of({"host": host, **flags})]
    if given["name"] or given["addresses"] or given["nodeName"]:
        text = "--name, --address and --node-name are of one host: write them into the file"
        raise Refusal(text, Exit.USAGE)
    return read_rows(file, {key: value for key, value in flags.items() if value})


def download_of(url: str, sha256: str) -> Download:
    """Return the download that the flags describe.

    Raises Refusal if one flag is missing or malformed.
    """
    if bool(url) is not bool(sha256):
        raise Refusal(
            "--agent-url and --agent-sha256 belong together: `sha256sum` of the package prints it",
            Exit.USAGE,
        )
    digits = set(sha256.lower()) <= set("0123456789abcdef")
    if sha256 and not (digits and len(sha256) == SHA256_DIGITS):
        text = f"--agent-sha256 {sha256}: not {SHA256_DIGITS} hexadecimal digits"
        raise Refusal(f"{text}; `sha256sum` of the package prints them", Exit.USAGE)
    if url and not url.startswith(("https://", "http://")):
        raise Refusal(f"--agent-url {url}: no https:// or http:// URL", Exit.USAGE)
    return Download(url, sha256.lower())


async def import_command(
    rows: Sequence[ImportRow], how: How, kubeconfig: str | None, context: str | None
) -> Exit:
    """Import the hosts and print the report. Return FINDING unless every host is Running."""
    require_asyncssh()
    packages = read_packages(how.packages)
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube, {PLURAL})
        cluster = await cluster_of(kube, how.server, kubeconfig, context)
        await _check_cluster(kube, how.namespace)
        importer = Importer(kube, cluster, connect_ssh, _tell, packages, how.download, how.seconds)
        outcomes = await import_all(importer, rows, how.at_once)
    report(outcomes, how.output)
    return Exit.FINE if all(o.result is ImportResult.RUNNING for o in outcomes) else Exit.FINDING


async def _check_cluster(kube: Kube, namespace: str) -> None:
    """Raise Refusal if the cluster cannot accept any host."""
    findings = await cluster_findings(kube, namespace)
    for finding in findings:
        say(f"{finding.level.lower()}: {finding}")
    if refused := [str(finding) for finding in findings if finding.level is Level.REFUSED]:
        raise Refusal("; ".join(refused))


def _tell(line: str) -> None:
    """Print a line of progress on standard error: standard output is for the report."""
    typer.echo(line, err=True)


def report(outcomes: Sequence[ImportOutcome], output: Plain) -> None:
    if output is Plain.JSON:
        typer.echo(json.dumps([outcome.to_dict() for outcome in outcomes], indent=2))
        return
    rows = [[o.host, o.machine, o.result, o.step, o.why] for o in outcomes]
    for line in table(["HOST", "MACHINE", "RESULT", "STEP", "WHY"], rows):
        typer.echo(line)
    running = sum(o.result is ImportResult.RUNNING for o in outcomes)
    if running < len(outcomes):
        typer.echo(f"\n{running} of {len(outcomes)} are Running: run it again to go on", err=True)


async def print_command(
    row: ImportRow, how: How, kubeconfig: str | None, context: str | None, *, cloud_init: bool
) -> Exit:
    """Create the Machine and print what lets its host join.

    cloud_init: print user data for cloud-init, which includes the token; else the script.
    """
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube, {PLURAL})
        cluster = await cluster_of(kube, how.server, kubeconfig, context)
        await _check_cluster(kube, how.namespace)
        name = row.machine_name
        with refusals(name):
            machine, _ = await made(kube, row)
            joining = Joining(name, machine.node_name, cluster.server, cluster.ca)
            if cloud_init:
                if need_of(machine, joined=False) is not Need.WANTED:
                    raise Refusal(not_wanted(machine))
                stored = await live_token(kube, name, kube.clock, TOKEN_SECONDS)
                typer.echo(cloud_config(joining, stored.text, how.download), nl=False)
                say(f"it holds the token of {name}: keep it as a secret")
            else:
                typer.echo(join_script(joining, how.download), nl=False)
                say(
                    f"run it as root on the host, with `kubenode machine token {name}` as its input"
                )
    return Exit.FINE
