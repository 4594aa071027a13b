"""`kubenode freeze show` and `lift`: the freeze of destructive acts after a restore of etcd."""

import json

import typer

from kubenode.api.meta import format_time
from kubenode.cli.cluster import connected
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.options import Plain
from kubenode.cli.pause import LONGEST_WHY, caller
from kubenode.runtime.kube.configmaps import ConfigMapStore, StoredTexts
from kubenode.runtime.kube.errors import Conflict, Forbidden
from kubenode.runtime.restore import NAME, Lineage, lift, read_lineage


async def show_command(
    namespace: str, output: Plain, kubeconfig: str | None, context: str | None
) -> Exit:
    """Ends with FINDING while it is frozen."""
    async with connected(kubeconfig, context) as kube:
        found = read_lineage(await _read(ConfigMapStore(kube, NAME, namespace)))
    if output is Plain.JSON:
        typer.echo(json.dumps(as_data(found), indent=2, ensure_ascii=False))
    else:
        for line in lines(found):
            typer.echo(line)
    return Exit.FINDING if found.frozen else Exit.FINE


async def lift_command(
    namespace: str, why: str, kubeconfig: str | None, context: str | None
) -> Exit:
    if not why.strip():
        raise Refusal("--why: write what was checked: it goes into the audit log", Exit.USAGE)
    if len(why) > LONGEST_WHY:
        raise Refusal(f"--why: longer than {LONGEST_WHY} characters: cut it", Exit.USAGE)
    async with connected(kubeconfig, context) as kube:
        store = ConfigMapStore(kube, NAME, namespace)
        stored = await _read(store)
        found = read_lineage(stored)
        if not found.frozen:
            typer.echo("not frozen: nothing to lift")
            return Exit.FINE
        by = await caller(kube)
        try:
            now = format_time(kube.clock.now())
            await store.write(lift(now, by, why.strip(), found.lifts), stored)
        except Conflict as error:
            raise Refusal("an operator wrote at the same time: run it again") from error
        except Forbidden as error:
            raise _missing_right(error) from error
    typer.echo(f"lifted by {by}: every operator goes on within 10 s")
    return Exit.FINE


async def _read(store: ConfigMapStore) -> StoredTexts:
    try:
        return await store.read()
    except Forbidden as error:
        raise _missing_right(error) from error


def _missing_right(error: Forbidden) -> Refusal:
    role = "Role kubenode-freeze-lifter of namespace kubenode-system"
    return Refusal(f"a right is missing: {error.message}; {role} has it")


def as_data(found: Lineage) -> dict[str, object]:
    return {
        "frozen": bool(found.frozen),
        "why": found.frozen,
        "since": found.frozen_at,
        "noticedBy": found.noticed_by,
        "liftedAt": found.lifted_at,
        "liftedBy": found.lifted_by,
        "liftedWhy": found.lifted_why,
    }


def lines(found: Lineage) -> list[str]:
    """For people."""
    if found.frozen:
        return [
            f"frozen since {found.frozen_at}, noticed by {found.noticed_by}: {found.frozen}",
            "no machine is deleted, stopped, reset or replaced until a person lifts it:",
            '  kubenode freeze lift --why "what was checked"',
        ]
    if found.lifted_at:
        return [
            f"not frozen; lifted {found.lifted_at} by {found.lifted_by}: {found.lifted_why}",
        ]
    return ["not frozen"]
