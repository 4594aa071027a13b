"""`kubenode machine token` and `kubenode machine reissue`."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

import typer

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machine import REISSUE, MachineOrigin
from kubenode.api.v1alpha1.machinestatus import MachineConditionType
from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.exits import Refusal, say
from kubenode.cli.machine_app import Printed
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Forbidden, NotFound
from kubenode.runtime.kube.paths import custom
from machine.access import PLURAL
from machine.bootstrap.controller import HAVE_FAILED, has_failed, need_of
from machine.bootstrap.step import Need
from machine.bootstrap.tokens import StoredToken, Tokens
from machine.hostimport.join_settings import Joining, agent_toml
from machine.machine.model import Starting
from machine.names import TOKEN_NAMESPACE

MADE_SECONDS = 15.0
"""Timeout for a token. The operator makes one within a second if it runs."""
POLL_SECONDS = 0.3
ANEW_SECONDS = 60.0
ROOT_CA = "kube-root-ca.crt"
"""ConfigMap of every namespace with the authority that signs the API server's certificate."""


async def print_token(
    name: str, printed: Printed, server: str, kubeconfig: str | None, context: str | None
) -> None:
    """Print the token or the agent's configuration. Raises Refusal.

    A token is printed only while the agent may join and a live token exists.
    """
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube, {PLURAL})
        with refusals(name):
            machine = await _machine(kube, name)
            if printed is Printed.TOML:
                url = await server_url(server, kubeconfig, context)
                typer.echo(agent_toml(Joining(name, machine.node_name, url, ca="")), nl=False)
                return
            if need_of(machine, joined=False) is not Need.WANTED:
                raise Refusal(not_wanted(machine))
            stored = await live_token(kube, name, kube.clock)
            if printed is Printed.TEXT:
                typer.echo(stored.text)
                return
            document = {
                "agent": name,
                "node": machine.node_name,
                "ca": await authority(kube),
                "token": stored.text,
                "expiresAt": format_time(stored.token.expires_at),
                "server": await server_url(server, kubeconfig, context),
            }
            typer.echo(json.dumps(document, indent=2))


async def reissue(name: str, kubeconfig: str | None, context: str | None) -> None:
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube, {PLURAL})
        with refusals(name):
            machine = await _machine(kube, name)
            if has_failed(machine) and _gave_up(machine) is None:
                raise Refusal(f"Machine {name} has failed for good: {_why_failed(machine)}")
            await _mark(kube, machine)
    say(
        f"the agent of {name} may have a first certificate once more: write what"
        f" `kubenode machine token {name}` prints into its bootstrap_token_file"
    )


async def waited_for(kube: Kube, machine: Machine) -> Machine:
    """Make a Machine that gave up on its host wait for it again, and return the Machine.

    Raises Refusal if the operator does not react in time.
    """
    if _gave_up(machine) is None:
        return machine
    name, deadline = machine.metadata.name, kube.clock.monotonic() + ANEW_SECONDS
    await _mark(kube, machine)
    while _gave_up(machine) is not None:
        if kube.clock.monotonic() >= deadline:
            raise Refusal(
                f"Machine {name} gave up on its host and does not wait for it anew after"
                f" {ANEW_SECONDS:.0f} s: does `kubenode run machine` run and lead?"
            )
        await kube.clock.sleep(POLL_SECONDS)
        machine = await _machine(kube, name)
    return machine


async def _mark(kube: Kube, machine: Machine) -> None:
    """Annotate the Machine so that its agent may request a first certificate again.

    The annotated time is after the Machine gave up, even if the clock here is behind.
    """
    since, now = _gave_up(machine), kube.clock.now()
    at = now if since is None else max(now, since + timedelta(seconds=1))
    mark = {"metadata": {"annotations": {REISSUE: format_time(at)}}}
    await kube.patch(custom(PLURAL, machine.metadata.name), mark)


def _gave_up(machine: Machine) -> datetime | None:
    """Return when an imported Machine gave up on its host; None if it did not."""
    health = machine.status.condition(MachineConditionType.HEALTHY)
    imported = machine.spec.origin is MachineOrigin.IMPORT
    late = health is not None and health.reason == Starting.TIMEOUT
    return health.last_transition_time if health is not None and imported and late else None


def _why_failed(machine: Machine) -> str:
    condition = next(c for c in machine.status.conditions if c.reason in HAVE_FAILED)
    return f"{condition.message}; delete it, its set makes another"


@contextmanager
def refusals(name: str) -> Iterator[None]:
    """Turn errors of the API server into a Refusal that says what to do."""
    try:
        yield
    except NotFound as error:
        text = f"there is no Machine {name}; `kubenode machine show` lists those that are"
        raise Refusal(text) from error
    except Forbidden as error:
        raise Refusal(
            f"a right is missing: {error.message}; see docs/machine-identity.md for whose it is"
        ) from error


async def _machine(kube: Kube, name: str) -> Machine:
    return await kube.get(custom(PLURAL, name), Machine.from_server)


async def live_token(
    kube: Kube, name: str, clock: Clock, seconds: float = MADE_SECONDS
) -> StoredToken:
    """Wait for a live token of the Machine and return it. Raises Refusal after `seconds`."""
    tokens, deadline = Tokens(kube), clock.monotonic() + seconds
    while clock.monotonic() < deadline:
        machine = await _machine(kube, name)
        bootstrap = machine.status.bootstrap
        if bootstrap is not None and bootstrap.token_id:
            stored = await tokens.read(bootstrap.token_id)
            bound = stored is not None and stored.token.machine_uid == machine.metadata.uid
            if stored is not None and bound and stored.token.expires_at > clock.now():
                return stored
        await clock.sleep(POLL_SECONDS)
    raise Refusal(
        f"Machine {name} has no bootstrap token after {seconds:.0f} s: does"
        " `kubenode run machine` run and lead, and what do its logs say?"
    )


def not_wanted(machine: Machine) -> str:
    name = machine.metadata.name
    if machine.metadata.deletion_timestamp is not None:
        return f"Machine {name} is being deleted: no agent of it is let in"
    bootstrap = machine.status.bootstrap
    if bootstrap is None or bootstrap.certificate_expires_at is None:
        return f"Machine {name} is not there yet: its provider has not made it"
    return (
        f"the agent of Machine {name} has a certificate until"
        f" {format_time(bootstrap.certificate_expires_at)}: if that is lost or over, say"
        f" `kubenode machine reissue {name}` first"
    )


async def authority(kube: Kube) -> str:
    """Return the PEM of the authority that signs the API server's certificate. Raises Refusal."""
    path = paths.resource("/api/v1", "configmaps", namespace=TOKEN_NAMESPACE, name=ROOT_CA)
    try:
        config_map = await kube.get(path)
    except NotFound:
        config_map = {}
    pem = str(config_map.get("data", {}).get("ca.crt", ""))
    if not pem:
        raise Refusal(
            f"ConfigMap {TOKEN_NAMESPACE}/{ROOT_CA} with the API server's authority is missing:"
            " kube-controller-manager keeps it there (controller root-ca-certificate-publisher)"
        )
    return pem


async def server_url(given: str, kubeconfig: str | None, context: str | None) -> str:
    """Return the API server's https:// URL: the given one, or that of the kubeconfig.

    Raises Refusal.
    """
    from kubenode.runtime.kube.official import connect  # imports kubernetes: 1 s

    if not given:
        connection = await connect(kubeconfig, context).connect()
        given = connection.server
        await connection.close()
    if not given.startswith("https://"):
        raise Refusal(f"server {given!r} is no https:// URL: name one that hosts reach, --server")
    return given
