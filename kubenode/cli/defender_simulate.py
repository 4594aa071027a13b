"""`kubenode defender simulate`: what would a policy have done with the last day's requests?

The same history is simulated twice, under the cluster's policies and under those of the files. Only
the two simulations are compared: both have the same errors where the history is guessed. The real
outcome is printed beside them and shows how close the simulation is.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from defender.client import HttpPermits
from defender.decision.history import History, history
from defender.decision.ledger import load_permit
from defender.decision.policies import LoadedPolicy, read_policy
from defender.decision.requests import RequestsPage
from defender.decision.simulate import RequestFate, SimulationOutcome, reasons, simulate
from defender.overview.series import percentile
from defender.server.store import LIFE
from kubenode.api.duration import format_duration, parse_duration
from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import DefenderPolicy
from kubenode.cli import policy_files as replay_files
from kubenode.cli.cluster import connected
from kubenode.cli.defender_comparison import lines
from kubenode.cli.defender_objects import DefenderObjects, read_objects
from kubenode.cli.defender_source import DefenderAddress, asking
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.options import ReportFormat
from kubenode.cli.tables import show_report

LONGEST = timedelta(days=7)
Report = dict[str, Any]


def since_from(text: str) -> timedelta:
    try:
        since = parse_duration(text)
    except ValueError as error:
        raise Refusal(f"--since: {error}", Exit.USAGE) from error
    if not timedelta() < since <= LONGEST:
        text = f"--since: {text!r} is not between 1s and {format_duration(LONGEST)}"
        raise Refusal(text, Exit.USAGE)
    return since


def policies_from(files: Sequence[Path]) -> list[LoadedPolicy]:
    """Read the DefenderPolicies of YAML files. Raises Refusal for invalid or duplicate policies."""
    policies = [_as_read(policy) for file in files for policy in replay_files.policies_from(file)]
    broken = [
        f"{policy.name}: {'; '.join(policy.problems)}" for policy in policies if policy.problems
    ]
    if broken:
        raise Refusal(f"--policy: it would refuse what it covers: {'; '.join(broken)}")
    names = [policy.name for policy in policies]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise Refusal(f"--policy: {', '.join(twice)} is there twice: give each a name of its own")
    return policies


def _as_read(policy: DefenderPolicy) -> LoadedPolicy:
    """Return the policy as Kube Defender would read it from the API server."""
    body = policy.to_dict()
    body["metadata"]["name"] = policy.metadata.name or "default"
    return read_policy(json.dumps(body).encode())


async def simulate_command(
    kubeconfig: str | None,
    context: str | None,
    address: DefenderAddress,
    new: Sequence[LoadedPolicy],
    since: timedelta,
    output: ReportFormat,
    *,
    replace_all: bool,
) -> Exit:
    """Simulate and print the comparison.

    replace_all: drop all of the cluster's policies; else only those of the same names are replaced.
    """
    async with connected(kubeconfig, context) as kube, asking(address) as defender:
        objects = await read_objects(kube)
        now = kube.clock.now()
        page = await remembered(defender, now - since) if defender is not None else None
    past = history_of(objects, page, now - since, now)
    names = {policy.name for policy in new}
    retained = (
        [] if replace_all else [policy for policy in objects.policies if policy.name not in names]
    )
    report = compared(past, simulate(past, objects.policies), simulate(past, [*retained, *new]))
    show_report(report, output, lambda: lines(report))
    return Exit.FINE


async def remembered(defender: HttpPermits, since: datetime) -> RequestsPage:
    """Return all pages of the recorded requests. Raises DefenderUnreachable."""
    first = page = await defender.requests(since)
    requests = {(r.ask.holder.uid, r.ask.class_, r.first_asked): r for r in page.requests}
    while page.requests and page.requests[-1].last_asked > since:
        since = page.requests[-1].last_asked
        page = await defender.requests(since)
        requests |= {(r.ask.holder.uid, r.ask.class_, r.first_asked): r for r in page.requests}
    return first.model_copy(update={"requests": list(requests.values())})


def history_of(
    objects: DefenderObjects, page: RequestsPage | None, start: datetime, end: datetime
) -> History:
    permits = [load_permit(permit, LIFE.total_seconds()) for permit in objects.permits]
    return history(list(objects.nodes.values()), permits, objects.jobs, page, start, end)


# -- the comparison ---------------------------------------------------------------------------


def compared(past: History, present: SimulationOutcome, new: SimulationOutcome) -> Report:
    """Compare the simulations with each other and with the history. Pure. Times are in seconds."""
    return {
        "from": format_time(past.start),
        "to": format_time(past.end),
        "nodes": len(past.nodes),
        "requests": len(past.wishes),
        "was": _was(past),
        "present": _summarize_outcome(present),
        "new": _summarize_outcome(new),
        "differences": _differences(present, new),
        "unknown": doubts(past),
    }


def _was(past: History) -> Report:
    waits = sorted(wish.was - wish.at for wish in past.wishes if wish.was is not None)
    return {"granted": len(waits), "notGranted": len(past.wishes) - len(waits), **_waits(waits)}


def _summarize_outcome(outcome: SimulationOutcome) -> Report:
    waiting_count = sum(bool(fate.refusals) for fate in outcome.fates)
    return {
        "granted": len(outcome.granted),
        "notGranted": len(outcome.fates) - len(outcome.granted),
        "held": waiting_count,
        **_waits(outcome.waits()),
        "mostDisrupted": outcome.most_disrupted[0],
        "mostDisruptedAt": format_time(outcome.most_disrupted[1]),
        "mostUnavailable": outcome.most_unhealthy[0],
        "heldBy": [
            {"reason": reason.value, "scope": scope, "requests": count}
            for (reason, scope), count in sorted(reasons(outcome.fates).items())
        ],
        "breakersOpened": [
            {"policy": policy, "scope": s.scope, "at": format_time(s.since), "why": s.why}
            for policy, s in outcome.openings
        ],
    }


def _waits(waits: Sequence[timedelta]) -> Report:
    seconds = [round(wait.total_seconds(), 3) for wait in waits]
    return {
        "waitP50": percentile(seconds, 50),
        "waitP90": percentile(seconds, 90),
        "waitMax": seconds[-1] if seconds else None,
    }


def _differences(present: SimulationOutcome, new: SimulationOutcome) -> list[Report]:
    """List the requests with different outcomes, the largest difference first."""
    pairs = zip(present.fates, new.fates, strict=True)
    differing = [
        (present_fate, new_fate)
        for present_fate, new_fate in pairs
        if present_fate.granted != new_fate.granted
    ]
    differing.sort(key=lambda pair: (-_apart(*pair), pair[0].wish.at, pair[0].wish.ask.node))
    return [
        {
            "node": present_fate.wish.ask.node,
            "operation": present_fate.wish.ask.operation.value,
            "class": present_fate.wish.ask.class_.value,
            "asked": format_time(present_fate.wish.at),
            "present": _fared(present_fate),
            "new": _fared(new_fate),
        }
        for present_fate, new_fate in differing
    ]


def _apart(first: RequestFate, second: RequestFate) -> float:
    if first.waited is None or second.waited is None:
        return float("inf")
    return abs((first.waited - second.waited).total_seconds())


def _fared(fate: RequestFate) -> str:
    if fate.waited is not None:
        wait = format_duration(timedelta(seconds=round(fate.waited.total_seconds())))
        return "at once" if wait == "0s" else f"after {wait}"
    why = max(fate.refusals.items(), key=lambda item: item[1], default=None)
    reason = f": {why[0][0]}" + (f" {why[0][1]}" if why[0][1] else "") if why else ""
    return ("withdrawn" if fate.withdrawn else "not granted") + reason


def doubts(past: History) -> list[str]:
    """List what the records do not contain and what the simulation assumes instead."""
    doubt, unknowns = past.doubt, []
    if doubt.remembered_since is None:
        unknowns.append(
            "no Kube Defender was asked (--url): known is only what was granted and who waits now;"
            " jobs are taken to have asked from when they were made"
        )
    elif doubt.remembered_since > past.start:
        since = doubt.remembered_since.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
        unknowns.append(
            f"Kube Defender started at {since}: of what was asked before is known only what was"
            " granted and who waits now"
        )
    if doubt.dropped:
        unknowns.append(f"{doubt.dropped} requests were forgotten: there were too many to remember")
    if doubt.guessed:
        unknowns.append(
            f"{doubt.guessed} requests had no permit that was given back: they are taken to last as"
            " long as is usual for their class here"
        )
    if doubt.gone:
        names = ", ".join(sorted(doubt.gone)[:5]) + (", …" if len(doubt.gone) > 5 else "")
        unknowns.append(f"requests of nodes that are gone are left out: {names}")
    if doubt.unseen:
        unknowns.append(
            f"{doubt.unseen} nodes are not ready now without a job: taken to be so since their"
            " condition changed"
        )
    unknowns += [
        "the fleet is taken as it is today, each node healthy but for the faults that jobs tell of;"
        " cordons by people, pending pods and earlier outages without a job are not known",
        "a fault lasts until its repair, however long that waits; whether a repair that comes"
        " later or sooner would have helped as it did is not known",
    ]
    return unknowns
