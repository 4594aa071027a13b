"""`kubenode rules explain --from`: explains what a rule would have matched in a recording."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.library import rules_from
from kubenode.cli.options import Plain
from kubenode.cli.rules_explain import require_compiled, show, unknown
from kubenode.cli.rules_outlook import RuleOutlook, waits_of, with_job
from rules.explain import explained
from rules.program import RuleVersion, compile_program
from simulation.replay.moments import instant, read_moment
from simulation.replay.recordings import entries
from simulation.replay.timeline import Wrong
from simulation.replay.world import START, World


def of_recording(
    node: str,
    rule: str,
    recordings: Sequence[str],
    *,
    rules: Sequence[Path],
    at: str | None,
    output: Plain,
) -> Exit:
    """Explain the rule for the node.

    at: a duration since the first entry, or an instant; None for the last entry.
    """
    known = {remedier.metadata.name: remedier for remedier in rules_from(rules)}
    if rule not in known:
        raise Refusal(unknown("rule", rule, known), Exit.USAGE)
    try:
        world = replayed(recordings, list(known.values()), at)
    except (Wrong, ValueError) as error:
        raise Refusal(str(error), Exit.USAGE) from error
    if (facts := world.facts(node)) is None:
        raise Refusal(unknown("node", node, world.nodes))
    program = compile_program([RuleVersion(name, remedier) for name, remedier in known.items()])
    require_compiled(rule, {error.rule: error for error in program.rejected})
    standing = standing_of(world, node).get(rule)
    show(explained(known[rule], facts, world.now, program), output, standing)
    return Exit.FINE


def standing_of(world: World, node: str) -> Mapping[str, RuleOutlook]:
    """Return the outlook of each rule that matches the node now, by name."""
    outlooks = waits_of(world.waiting(node))
    for job in world.jobs_of(node):
        if job.open:
            hold = (job.hold.reason, job.hold.message) if job.hold is not None else None
            with_job(outlooks, job.remedier, job.name, job.phase, hold)
    return outlooks


def replayed(recordings: Sequence[str], rules: Sequence[NodeRemedier], at: str | None) -> World:
    """Return the recorded fleet at that moment. Raises Wrong or ValueError."""
    world, end = None, None
    for now, group in groupby(entries(recordings), key=lambda pair: pair[0]):
        several = [entry for _, entry in group]
        if world is None:
            relative = isinstance(several[0].at, timedelta)
            world = World(rules, start=START if relative else now)
            end = _end(at, world.start)
        if end is not None and now > end:
            break
        world.run_before(now)
        for entry in several:
            world.happen(entry)
        world.run_until(now)
    if world is None:
        raise Wrong("the recording is empty: nothing happened in it")
    if end is not None:
        world.run_until(max(end, world.now))
    return world


def _end(at: str | None, start: datetime) -> datetime | None:
    return None if at is None else instant(read_moment(at), start)
