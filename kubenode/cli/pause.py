"""`kubenode pause` and `kubenode resume`: start and end a person's pause of a scope.

Both write to DefenderPolicy.spec.pauses, as the dashboard does, so they work while Kube Defender is
down. A pause stops new acts; it never stops recovery.
"""

import getpass
import socket
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import typer

from defender.decision.pauses import PausedScope, PauseOutcome, lasting, read_scope, scope_of
from defender.server.pause_edits import PauseEdit, pause, resume
from kubenode.api.duration import parse_duration
from kubenode.api.v1alpha1.defenderpolicy import Pause
from kubenode.api.v1alpha1.permit import PermitState
from kubenode.cli.cluster import connected
from kubenode.cli.defender_objects import DefenderObjects, read_objects
from kubenode.cli.exits import Exit, Refusal, say
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Forbidden, NotFound

SHOWN = 5
LONGEST_WHY = 1024
REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@dataclass(frozen=True, slots=True)
class PauseRequest:
    """The arguments of `kubenode pause`.

    until: None for a pause without an end.
    now: also revoke permits whose holders have done nothing irreversible.
    policy: the policy to write to; None to choose by the scope.
    allow_empty: accept a scope without nodes.
    """

    scope: PausedScope
    until: datetime | None
    why: str
    now: bool
    policy: str | None
    allow_empty: bool


def scope_from(text: str) -> PausedScope:
    try:
        return read_scope(text)
    except ValueError as error:
        raise Refusal(f"--scope: {error}", Exit.USAGE) from error


def end_from(lasts: str | None, until: str | None, now: datetime) -> datetime | None:
    """Return the end of a pause, None for no end. Raises Refusal for an invalid or past time.

    lasts: a duration; excludes `until`.
    """
    if lasts is not None and until is not None:
        raise Refusal("--for and --until both say when it ends: write one of them", Exit.USAGE)
    try:
        if lasts is not None:
            end = now + parse_duration(lasts)
        elif until is not None:
            end = read_instant(until, now)
        else:
            return None
    except ValueError as error:
        flag = "--for" if lasts is not None else "--until"
        raise Refusal(f"{flag}: {error}", Exit.USAGE) from error
    if end <= now:
        raise Refusal(
            f"it would end at {shown(end)}, which is over: write a later time", Exit.USAGE
        )
    return end.replace(microsecond=0) + timedelta(seconds=end.microsecond > 0)


def read_instant(text: str, now: datetime) -> datetime:
    """Parse ISO 8601, by the local time zone if the text has none; `16:00` is the next 16:00 here.

    Raises ValueError.
    """
    local = now.astimezone()
    try:
        if len(text) <= len("16:00") and ":" in text:
            at = datetime.strptime(text, "%H:%M")  # noqa: DTZ007  the zone comes below
            then = local.replace(hour=at.hour, minute=at.minute, second=0, microsecond=0)
            return then if then > local else then + timedelta(days=1)
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"{text!r} is no time: write 2026-11-21T16:00Z, 2026-11-21 16:00 or 16:00"
        ) from error


def shown(at: datetime | None) -> str:
    return "resumed" if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


async def pause_command(kubeconfig: str | None, context: str | None, request: PauseRequest) -> Exit:
    if len(request.why) > LONGEST_WHY:
        raise Refusal(f"--why: longer than {LONGEST_WHY} characters: cut it", Exit.USAGE)
    async with connected(kubeconfig, context) as kube:
        objects = await read_objects(kube)
        if not request.allow_empty:
            require_nodes(objects, request.scope)
        now = kube.clock.now()
        by = await caller(kube)
        wanted = request.scope.pause(until=request.until, by=by, why=request.why, now=request.now)
        try:
            written = await pause(kube, wanted, now, request.policy)
        except NotFound as error:
            raise _no_such_policy(request.policy, objects) from error
        failed = tell(written, request.scope)
        for line in reach(objects, request):
            typer.echo(line)
    only = f" --policy {request.policy}" if request.policy else ""
    typer.echo(f"to undo: kubenode resume --scope {request.scope}{only}")
    return Exit.FINDING if failed else Exit.FINE


async def resume_command(
    kubeconfig: str | None, context: str | None, scope: PausedScope | None, policy: str | None
) -> Exit:
    """End pauses and print what is still paused.

    scope: None for every pause.
    """
    async with connected(kubeconfig, context) as kube:
        objects = await read_objects(kube)
        now = kube.clock.now()
        try:
            written = await resume(kube, scope, now, policy)
        except NotFound as error:
            raise _no_such_policy(policy, objects) from error
        failed = tell(written, scope)
    remaining = [
        (w.policy, pause) for w in written if w.edit for pause in lasting(w.edit.pauses, now)
    ]
    for name, lasting_pause in remaining:
        typer.echo(f"still paused: policy {name}: {describe_pause(lasting_pause)}")
    return Exit.FINDING if failed else Exit.FINE


def _no_such_policy(name: str | None, objects: DefenderObjects) -> Refusal:
    there = ", ".join(policy.name for policy in objects.policies) or "none"
    return Refusal(f"--policy: there is no DefenderPolicy {name}; there are: {there}")


async def caller(kube: Kube) -> str:
    """Return the user name that the API server reports; if it does not, the local user and host
    name.
    """
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = await kube.create(REVIEWS, body)
        return str(answer["status"]["userInfo"]["username"])
    except (NotFound, Forbidden, KeyError, TypeError):
        return f"{getpass.getuser()}@{socket.gethostname()} (as the machine says)"


def require_nodes(objects: DefenderObjects, scope: PausedScope) -> None:
    """Raise Refusal if no node is in the scope, since a mistyped scope would pause nothing."""
    if scope.kind == "Cluster" or _inside(objects, scope):
        return
    anyway = "; for nodes that are to come write --allow-empty"
    if scope.kind == "Node":
        text = f"--scope: node {scope.value} is not in the cluster"
        raise Refusal(f"{text}; `kubectl get nodes` lists those that are{anyway}")
    values = Counter(
        node.metadata.labels[scope.label]
        for node in objects.nodes.values()
        if scope.label in node.metadata.labels
    )
    there = ", ".join(sorted(values)[:SHOWN]) + (", …" if len(values) > SHOWN else "")
    has = f"there are: {there}" if values else f"and no node has the label {scope.label}"
    raise Refusal(f"--scope: no node has {scope}; {has}{anyway}")


def _inside(objects: DefenderObjects, scope: PausedScope) -> list[str]:
    return [name for name, node in objects.nodes.items() if scope.has(name, node.metadata.labels)]


def tell(written: Sequence[PauseEdit], scope: PausedScope | None) -> bool:
    """Print what was done to each policy. Return whether a policy could not be changed."""
    if not written:
        typer.echo("nothing is paused: there is no DefenderPolicy")
    for change in written:
        if change.created:
            typer.echo(f"policy {change.policy}: created, as there was none")
        if change.edit is None:
            say(f"policy {change.policy}: {change.problem}")
        else:
            for line in _describe_edit(change, scope):
                typer.echo(f"policy {change.policy}: {line}")
    return any(change.edit is None for change in written)


def _describe_edit(change: PauseEdit, scope: PausedScope | None) -> list[str]:
    edit = change.edit
    assert edit is not None
    current = next((pause for pause in edit.pauses if scope_of(pause) == scope), None)
    match edit.outcome:
        case PauseOutcome.PAUSED if current is not None:
            return [f"paused {describe_pause(current)}"]
        case PauseOutcome.PROLONGED if current is not None:
            return [
                f"prolonged: {describe_pause(current)}; it was {describe_pause(edit.before[0])}"
            ]
        case PauseOutcome.SHARPENED if current is not None:
            return [f"already paused, and permits are taken back now: {describe_pause(current)}"]
        case PauseOutcome.RESUMED:
            return [f"resumed; it was {describe_pause(pause)}" for pause in edit.before]
        case _ if edit.before:
            text = f"unchanged: already paused for as long: {describe_pause(edit.before[0])}"
            return [f"{text}; to end it earlier resume it first"]
        case _:
            return [f"{scope or 'nothing'} was not paused"]


def describe_pause(pause: Pause) -> str:
    """Describe a pause in one line, its scope first."""
    by = f" by {pause.by}" if pause.by else ""
    why = f": {pause.why}" if pause.why else ""
    return f"{scope_of(pause)} until {shown(pause.until)}{by}{why}"


def reach(objects: DefenderObjects, request: PauseRequest) -> list[str]:
    """Describe how many nodes the pause covers and which permits are open there."""
    inside = set(_inside(objects, request.scope))
    covered = inside
    if request.policy is not None:
        policy = next(p for p in objects.policies if p.name == request.policy)
        covered = {n for n in inside if policy.covers(dict(objects.nodes[n].metadata.labels))}
    open_ = [
        permit
        for permit in objects.permits
        if permit.status.state is not PermitState.RELEASED and permit.spec.node_name in covered
    ]
    lines = [f"{len(covered)} of {len(objects.nodes)} nodes: no new act starts there"]
    if request.policy is not None and len(covered) < len(inside):
        lines.append(f"the other {len(inside) - len(covered)} of {request.scope} it does not cover")
    if open_:
        names = ", ".join(
            f"{permit.spec.node_name} ({permit.spec.holder.kind} {permit.spec.holder.name})"
            for permit in sorted(open_, key=lambda p: p.spec.node_name)[:SHOWN]
        )
        more = ", …" if len(open_) > SHOWN else ""
        goes = "what holds one goes on; --now takes back where nothing irreversible was done yet"
        if request.now:
            goes = "Kube Defender takes back where nothing irreversible was done yet"
        lines.append(f"open permits there: {len(open_)}: {names}{more}; {goes}")
    else:
        lines.append("no permit is open there")
    return lines
