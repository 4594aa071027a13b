"""`kubenode freeze show` and `lift`: the freeze of destructive acts after a restore of etcd."""

import typer

from kubenode.api.meta import format_time
from kubenode.cli.cluster import connected
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.options import ReportFormat
from kubenode.cli.pause import LONGEST_WHY, caller
from kubenode.cli.tables import show_report
from kubenode.runtime.kube.configmaps import ConfigMapStore, StoredTexts
from kubenode.runtime.kube.errors import Conflict, Forbidden
from kubenode.runtime.restore import NAME, Lineage, lift, read_lineage


async def show_command(
    namespace: str, output: ReportFormat, kubeconfig: str | None, context: str | None
) -> Exit:
    """Print the state of the freeze. Return FINDING while destructive acts are frozen."""
    async with connected(kubeconfig, context) as kube:
        lineage = read_lineage(await _read(ConfigMapStore(kube, NAME, namespace)))
    show_report(as_data(lineage), output, lambda: lines(lineage))
    return Exit.FINDING if lineage.frozen else Exit.FINE


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
        lineage = read_lineage(stored)
        if not lineage.frozen:
            typer.echo("not frozen: nothing to lift")
            return Exit.FINE
        by = await caller(kube)
        try:
            now = format_time(kube.clock.now())
            await store.write(lift(now, by, why.strip(), lineage.lifts), stored)
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


def as_data(lineage: Lineage) -> dict[str, object]:
    return {
        "frozen": bool(lineage.frozen),
        "why": lineage.frozen,
        "since": lineage.frozen_at,
        "noticedBy": lineage.noticed_by,
        "liftedAt": lineage.lifted_at,
        "liftedBy": lineage.lifted_by,
        "liftedWhy": lineage.lifted_why,
    }


def lines(lineage: Lineage) -> list[str]:
    """Render the state of the freeze as text."""
    if lineage.frozen:
        return [
            f"frozen since {lineage.frozen_at}, noticed by {lineage.noticed_by}: {lineage.frozen}",
            "no machine is deleted, stopped, reset or replaced until a person lifts it:",
            '  kubenode freeze lift --why "what was checked"',
        ]
    if lineage.lifted_at:
        return [
            f"not frozen; lifted {lineage.lifted_at} by {lineage.lifted_by}: {lineage.lifted_why}",
        ]
    return ["not frozen"]
