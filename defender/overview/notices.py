"""What a person must know beside the faults of nodes, each with what to do. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from defender.dashboard.rollout import SetRollout
from defender.dashboard.rule import RuleView
from defender.overview.programs import COMMANDS, TITLES, AgentCoverage

STOPPED_REASONS = ("RolledBack", "Conflict", "DeadlineExceeded")
BY_PERSON = ("User", "Frozen")
REASON_CONDITIONS = ("Paused", "Degraded", "Progressing")
"""The first of these conditions that is True gives the reason of a rollout's state."""
DEAD_PHASES = ("Rejected", "Quarantined")
MARKS_TOO_MANY = "MarksTooMany"
MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class FleetNotice:
    """One notice.

    kind: rollout, program, agents or rules.
    title, why: sentences; why may be "".
    remedy: what a person can do.
    """

    kind: str
    key: str
    title: str
    why: str
    remedy: str


def list_notices(
    rules: Mapping[str, RuleView],
    rollouts: Mapping[str, SetRollout],
    leaderless: Iterable[str],
    agents: AgentCoverage,
) -> Iterator[FleetNotice]:
    """Yield the notices, the most urgent first. leaderless: names of Leases without a holder."""
    for lease in leaderless:
        yield FleetNotice(
            "program", lease, f"The {TITLES[lease]} has no leader",
            f"Nobody renews Lease {lease}, so this program does no work.",
            f"Start it: {COMMANDS[lease]}, or find out why its pods do not run.",
        )  # fmt: skip
    yield from _rollouts(rollouts)
    if agents.lacks:
        many = len(agents.rules)
        yield FleetNotice(
            "agents", "agents",
            f"{agents.with_agent} of {agents.nodes} nodes have an agent;"
            f" {many} {'rule needs' if many == 1 else 'rules need'} one",
            "Steps and probes of these rules get no answer on a node without an agent.",
            "Install the agent on these nodes, or turn these rules off.",
        )  # fmt: skip
    yield from _rules(rules)


def stop_reason(rollout: SetRollout) -> tuple[str, str]:
    """Return reason and message of the rollout's state, both "" if there is nothing to say."""
    by_type = {condition.type: condition for condition in rollout.status.conditions}
    for type_ in REASON_CONDITIONS:
        current = by_type.get(type_)
        if current is not None and current.status == "True" and current.message:
            return current.reason, current.message
    return "", ""


def has_stopped(rollout: SetRollout) -> bool:
    """Return whether the rollout waits for a person, though none has paused it."""
    reason, _ = stop_reason(rollout)
    if rollout.status.phase == "Paused":
        return reason not in BY_PERSON
    return rollout.status.phase == "RollingBack" or reason in STOPPED_REASONS


def _rollouts(rollouts: Mapping[str, SetRollout]) -> Iterator[FleetNotice]:
    for name, rollout in sorted(rollouts.items()):
        if has_stopped(rollout):
            reason, why = stop_reason(rollout)
            yield FleetNotice(
                "rollout", name, f"Rollout of {name} has stopped: {reason or rollout.status.phase}",
                why,
                "Look at the machines that failed; then correct the set, or"
                f" resume it: kubenode component resume {name}.",
            )  # fmt: skip


def _rules(rules: Mapping[str, RuleView]) -> Iterator[FleetNotice]:
    dead = {name: why for name, rule in sorted(rules.items()) if (why := never_acts(rule))}
    if not dead:
        return
    name, why = next(iter(dead.items()))
    title = f"Rule {name} cannot act" if len(dead) == 1 else f"{len(dead)} rules cannot act"
    if len(dead) > 1:
        shown = ", ".join(list(dead)[:MOST_NAMED])
        why = f"{shown}{', …' if len(dead) > MOST_NAMED else ''}. {name}: {why}"
    yield FleetNotice(
        "rules", "rules", title, why, "Correct the rule: kubenode rules lint names what is wrong."
    )


def never_acts(rule: RuleView) -> str:
    """Return why the rule can never act in this cluster as it is, "" if it can."""
    bad = [c for c in rule.status.conditions if c.status == "False" and c.message]
    if rule.status.phase in DEAD_PHASES:
        return bad[0].message if bad else f"it is {rule.status.phase}"
    return next((c.message for c in bad if c.reason == MARKS_TOO_MANY), "")
