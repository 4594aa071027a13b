"""`kubenode diagnose NODE`: collects a diagnostics bundle of the host and says where it is.

The command asks the node's agent by a HostProbe, which works beside an open job, and prints the
answer. With the operator's address it downloads the bundle as well.
"""

import asyncio
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import typer

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import API_VERSION
from kubenode.api.v1alpha1.hostprobe import HostProbe, ProbeName
from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.pause import caller
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists, NotFound
from kubenode.runtime.kube.objects import Node, structs
from remedy.remedier.build import agent_of

PLURAL = "hostprobes"
POLL_SECONDS = 1.0
FETCH_SECONDS = 120.0
SIZES = "_characters"


@dataclass(frozen=True, slots=True)
class DiagnosticsRequest:
    """The arguments of the command.

    parts: parts of the bundle; empty for all.
    wait: how long to wait for the agent's answer.
    operator: `https://HOST:PORT` to download the bundle from; None to print only where it is.
    out: the file to write; None for the name of the bundle in the working directory.
    """

    node: str
    parts: tuple[str, ...]
    wait: timedelta
    operator: str | None = None
    token_file: Path | None = None
    ca_file: Path | None = None
    out: Path | None = None


async def diagnose(kubeconfig: str | None, context: str | None, wish: DiagnosticsRequest) -> Exit:
    token = _token(wish)
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube)
        try:
            node = await kube.get(paths.node(wish.node), structs(Node))
        except NotFound as error:
            raise Refusal(f"there is no node {wish.node}") from error
        body = question(wish, agent_of(node), await caller(kube), kube.clock.now())
        name = body["metadata"]["name"]
        try:
            await kube.create(paths.custom(PLURAL), body)
        except AlreadyExists as error:
            raise Refusal(f"HostProbe {name} was created in this second: try again") from error
        typer.echo(f"asked agent {agent_of(node)}: HostProbe {name}", err=True)
        probe = await _answer(kube, name, wish.wait, kube.clock)
    for line in describe_probe(probe):
        typer.echo(line)
    if wish.operator:
        if "place" not in probe.status.answer:
            raise Refusal("the operator has no copy of the bundle, so there is nothing to fetch")
        typer.echo(f"wrote {await _fetch(wish, agent_of(node), name, token)}")
    return Exit.FINE


def question(wish: DiagnosticsRequest, agent: str, by: str, now: datetime) -> dict[str, Any]:
    """Build the HostProbe, whose name is also that of the bundle. Pure.

    by: the user that the agent notes in the bundle.
    """
    at = now.astimezone(UTC).strftime("%Y%m%dt%H%M%Sz")
    name = f"{wish.node[:80].rstrip('.-')}-{at}"
    return {
        "apiVersion": API_VERSION,
        "kind": "HostProbe",
        "metadata": {"name": name},
        "spec": {
            "agent": agent,
            "nodeName": wish.node,
            "name": str(ProbeName.DIAGNOSTICS),
            "args": {"name": name, "bundle": ",".join(wish.parts), "by": by},
            "expiresAt": format_time(now + wish.wait),
        },
    }


async def _answer(kube: Kube, name: str, wait: timedelta, clock: Clock) -> HostProbe:
    """Wait for the agent's answer. Raises Refusal if none comes in time or the agent failed."""
    end = clock.monotonic() + wait.total_seconds()
    while clock.monotonic() < end:
        try:
            probe = HostProbe.model_validate(await kube.get(paths.custom(PLURAL, name)))
        except NotFound as error:
            raise Refusal(f"HostProbe {name} was deleted before its answer") from error
        if probe.status.answered_at is not None:
            if probe.status.error:
                raise Refusal(f"the agent could not: {probe.status.error}")
            return probe
        await clock.sleep(POLL_SECONDS)
    raise Refusal(
        f"no answer within {wait.total_seconds():.0f} s: is the agent alive? Its Lease says so:"
        " kubectl -n kubenode-agents get leases"
    )


def describe_probe(probe: HostProbe) -> list[str]:
    """Describe the answer for a person. Pure."""
    answer = probe.status.answer
    lines = [f"{'on the host':12}{answer.get('path', 'nowhere')}"]
    if "place" in answer:
        lines.append(f"{'copy':12}{answer['place']}")
    else:
        lines.append(f"{'no copy':12}{answer.get('why', 'the agent said nothing of one')}")
    sizes = {k.removesuffix(SIZES): v for k, v in answer.items() if k.endswith(SIZES)}
    shown = ", ".join(f"{part} {size}" for part, size in sizes.items())
    return [*lines, f"{'characters':12}{shown}"]


def _token(wish: DiagnosticsRequest) -> str:
    if wish.operator is None:
        return ""
    if wish.token_file is None:
        raise Refusal("--operator needs --token-file: the operator gives bundles to nobody else")
    try:
        return wish.token_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal(f"--token-file {wish.token_file}: {error}") from error


async def _fetch(wish: DiagnosticsRequest, agent: str, name: str, token: str) -> Path:
    """Download the bundle and return its path. Raises Refusal.

    An existing file is replaced only after the whole bundle has arrived.
    """
    out = wish.out or Path(f"{name}.tar.gz")
    url = f"{wish.operator}/v1/hosts/{agent}/bundles/{name}.tar.gz"
    unfinished = out.with_name(f".{out.name}.new")
    try:
        context = ssl.create_default_context(cafile=wish.ca_file)
        limits = aiohttp.ClientTimeout(total=FETCH_SECONDS)
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            aiohttp.ClientSession(timeout=limits, headers=headers, trust_env=True) as session,
            session.get(url, ssl=context) as answer,
        ):
            if answer.status != 200:
                body = (await answer.text())[:300].strip()
                raise Refusal(f"{url}: {answer.status} {body}")
            with unfinished.open("wb") as file:
                async for part in answer.content.iter_chunked(256 * 1024):
                    await asyncio.to_thread(file.write, part)
        unfinished.replace(out)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise Refusal(f"{url}: {error or type(error).__name__}") from error
    finally:
        unfinished.unlink(missing_ok=True)
    return out
