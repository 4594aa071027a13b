"""`kubenode job run NODE --remedier R`: starts a job by hand, built as the remedier builds one.

The spec of the job names no rule, so the person stands in for the evidence: the job acts even if
the fault is not observed. Guards, Kube Defender, the ladder and verification apply as to any job.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import typer

from kubenode.api.decisions import STARTED_BY
from kubenode.api.v1alpha1 import Disruption, Mode, NodeRemedier, RemedyOperationJob
from kubenode.api.v1alpha1.noderemedier import RemedierPhase
from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.job_access import PLURAL, refusals
from kubenode.cli.live import Live, read_node
from kubenode.cli.pause import caller
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists
from kubenode.runtime.kube.objects import Node, structs
from remedy.job.steps.table import unsupported
from remedy.noderecord.memory import past_of
from remedy.remedier.build import build
from remedy.remedier.choice import trigger
from remedy.remedier.decide import Candidate, JobOrder, job_name, latest_closed
from remedy.remedier.judge import rule_id
from rules.diagnose import Diagnoser, Match
from rules.explain import RuleExplanation, explained
from rules.program import RuleVersion
from rules.truth import Truth

SHOWN = 8


@dataclass(frozen=True, slots=True)
class JobRequest:
    """The arguments of the command.

    rung: name or number; "" for the first.
    mode: None for the mode of the rule.
    yes: act even if the fault of the rule is not observed.
    """

    node: str
    remedier: str
    rung: str
    mode: Mode | None
    yes: bool


async def start(kubeconfig: str | None, context: str | None, request: JobRequest) -> Exit:
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube)
        live = await read_node(kube, request.node, kube.clock)
        now = kube.clock.now()
        rule = chosen(live, request)
        mode = request.mode or rule.spec.mode
        rung = rung_number(rule, request.rung)
        require_able(rule, mode)
        require_alone(live.jobs, request.node, mode)
        explanation = explained(rule, live.facts, now, live.program)
        for line in warned(explanation, rule, rung, mode, request):
            typer.echo(line, err=True)
        node = await kube.get(paths.node(request.node), structs(Node))
        by = await caller(kube)
        body = made(rule, node, live, explanation, mode, rung, by, now)
        stored = await _create(kube, body, request.node)
    for line in describe_start(stored, mode):
        typer.echo(line)
    return Exit.FINE


# -- what is refused -----------------------------------------------------------------------------


def chosen(live: Live, request: JobRequest) -> NodeRemedier:
    """Return the requested rule.

    Raises Refusal if it is unknown, has no ladder or is not Active.
    """
    rule = live.rule(request.remedier)
    if rule is None:
        names = [rule.metadata.name for rule in live.rules if rule.spec.ladder][:SHOWN]
        there = ", ".join(names) or "none"
        raise Refusal(f"--remedier: there is no rule {request.remedier}; there are: {there}")
    if not rule.spec.ladder:
        raise Refusal(f"--remedier: rule {request.remedier} infers a fact and repairs nothing")
    phase = rule.status.phase
    if phase is not RemedierPhase.ACTIVE:
        state = f"is {phase}" if phase is not None else "is not loaded by any operator yet"
        hint = f"`kubectl describe noderemedier {request.remedier}` says why"
        raise Refusal(f"--remedier: rule {request.remedier} {state}; {hint}")
    return rule


def rung_number(rule: NodeRemedier, text: str) -> int:
    """Return the number of a rung by its name or number; 0 for "". Raises Refusal."""
    names = [rung.name for rung in rule.spec.ladder or ()]
    if not text:
        return 0
    if text in names:
        return names.index(text)
    if text.isdecimal() and int(text) < len(names):
        return int(text)
    there = ", ".join(f"{name} ({n})" for n, name in enumerate(names))
    raise Refusal(f"--from: {text!r} is no rung of the rule; there are: {there}", Exit.USAGE)


def require_able(rule: NodeRemedier, mode: Mode) -> None:
    if mode is Mode.OFF:
        raise Refusal("--mode: Off does nothing: write Enforce, Approve or DryRun", Exit.USAGE)
    if mode is not Mode.DRY_RUN and (why := unsupported(rule.spec.ladder or [])):
        raise Refusal(f"rule {rule.metadata.name}: {why}; --mode DryRun plans it all the same")


def require_alone(jobs: Sequence[RemedyOperationJob], node: str, mode: Mode) -> None:
    """Raise Refusal if the node has an open job, since a node has one acting job at a time.

    A job in mode DryRun neither blocks another one nor is blocked.
    """
    for job in jobs:
        shadow = job.spec.mode in (Mode.DRY_RUN, Mode.OFF)
        if not job.status.phase.closed and not shadow and mode is not Mode.DRY_RUN:
            name = job.metadata.name
            raise Refusal(
                f"node {node} has an open job, {name} ({job.status.phase}): see"
                f" `kubenode explain job {name}`, or end it with `kubenode job cancel {name}`"
            )


def warned(
    explanation: RuleExplanation, rule: NodeRemedier, rung: int, mode: Mode, request: JobRequest
) -> list[str]:
    """Return warnings to show before the job starts.

    Raises Refusal if the rule does not select the node, or if the job needs --yes.
    """
    name, node = rule.metadata.name, request.node
    if not explanation.selected:
        raise Refusal(f"rule {name} does not select node {node}: its labels do not fit spec.nodes")
    lines: list[str] = []
    if mode is not Mode.DRY_RUN and explanation.matches is not Truth.TRUE:
        state = "is not there" if explanation.matches is Truth.FALSE else "cannot be told"
        lines.append(f"the fault of rule {name} {state} on node {node}:")
        lines += [f"  {missing}" for missing in explanation.missing[:SHOWN]]
        harm = HARM[(rule.spec.ladder or [])[rung].disruption_class]
        lines.append(f"the job acts all the same, on your word: it {harm}.")
        lines.append("Its proof can only be that the fault is not there afterwards either.")
        if not request.yes:
            raise Refusal("\n".join([*lines, "if that is meant, say so with --yes"]))
    if explanation.blocked_by and mode is not Mode.DRY_RUN:
        lines.append("it will be held back, for guards of the rule stand in the way:")
        lines += [f"  {guard}" for guard in explanation.blocked_by[:SHOWN]]
    return lines


HARM = {
    Disruption.NONE: "disrupts nothing in its first rung",
    Disruption.HOST: "acts on the host in its first rung",
    Disruption.PODS: "moves the node's pods in its first rung",
    Disruption.NODE: "takes the node out of service in its first rung",
}


# -- the job -------------------------------------------------------------------------------------


def made(
    rule: NodeRemedier,
    node: Node,
    live: Live,
    explanation: RuleExplanation,
    mode: Mode,
    rung: int,
    by: str,
    now: datetime,
) -> dict[str, Any]:
    """Build the body of the create request: the remedier's, without the name of the rule."""
    past = past_of(live.record, live.jobs)
    uid, name = node.metadata.uid, rule.metadata.name
    if mode is Mode.DRY_RUN:
        shadows = [p for p in past if p.shadow and p.remedier in (name, "")]
        job = job_name(node.metadata.name, uid, latest_closed(shadows), f"{name} by hand")
    else:
        job = job_name(node.metadata.name, uid, latest_closed([p for p in past if not p.shadow]))
    id_ = rule_id(name, rule.metadata.generation)
    candidate = Candidate(id_, rule, Truth.UNKNOWN, disputed=False, since=now)
    facts = trigger(match) if (match := _match(rule, live, now)) is not None else []
    host_events = live.facts.host_events
    body = build(JobOrder(job, candidate, rung), node, facts, explanation.text(), now, host_events)
    spec = body["spec"]
    spec.pop("remedier", None)
    spec |= {"mode": str(mode), "startRung": rung}
    spec["approval"] = {**spec.get("approval", {}), "required": mode is Mode.APPROVE}
    body["metadata"].setdefault("annotations", {})[STARTED_BY] = by[:256]
    return body


def _match(rule: NodeRemedier, live: Live, now: datetime) -> Match | None:
    diagnoser = Diagnoser()
    id_ = rule_id(rule.metadata.name, rule.metadata.generation)
    diagnoser.load([RuleVersion(id_, rule)])
    for diagnosis in diagnoser.diagnose([live.facts], now):
        for match in diagnosis.matches:
            return match
    return None


async def _create(kube: Kube, body: dict[str, Any], node: str) -> dict[str, Any]:
    name = body["metadata"]["name"]
    try:
        with refusals("create", name):
            stored: dict[str, Any] = await kube.create(paths.custom(PLURAL), body)
            return stored
    except Refusal as refusal:
        if isinstance(refusal.__cause__, AlreadyExists):
            text = f"node {node} has got a job meanwhile, {name}; nothing was written"
            raise Refusal(text) from refusal.__cause__
        raise


def describe_start(stored: dict[str, Any], mode: Mode) -> list[str]:
    name = stored["metadata"]["name"]
    by = (stored["metadata"].get("annotations") or {}).get(STARTED_BY) or "nobody"
    then = {
        Mode.ENFORCE: "it asks for a permit and acts within the limits",
        Mode.APPROVE: f"it waits for `kubenode approve {name}`",
        Mode.DRY_RUN: "it plans, and acts on nothing; --mode Enforce acts",
    }[mode]
    return [f"job {name} is started, by {by}: {then}", f"see: kubenode explain job {name}"]
