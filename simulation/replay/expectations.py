"""Compares an expectation of a rule test with a world, and explains differences. Pure."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1.noderemedier import Scope
from rules.builtin import BUILTIN, near
from rules.facts import Value
from rules.probes import PROBES
from rules.truth import Truth
from simulation.replay.moments import written
from simulation.replay.records import JobRecord, SentNotification
from simulation.replay.testfile import Compared, Expect, ExpectedNotification
from simulation.replay.world import World

NONE = "none"
UNKNOWN = "unknown"
RULES_EXPLAINED = 3


@dataclass(frozen=True, slots=True)
class Difference:
    """A key of an expectation that does not hold.

    key: the name of the key in the file.
    explain: why, as lines of text.
    """

    key: str
    message: str
    explain: tuple[str, ...] = ()


def differences(world: World, expect: Expect) -> list[Difference]:
    """Return the keys of `expect` that do not hold in `world` now."""
    if not expect.node:
        return list(_of_the_fleet(world, expect))
    names = [n for n in world.nodes if any(fnmatchcase(n, p) for p in expect.nodes)]
    names += [p for p in expect.nodes if p not in names and "*" not in p]
    if not names:
        return [Difference("node", f"no node {' or '.join(expect.nodes)} is there now")]
    return [difference for name in names for difference in _of_node(world, name, expect)]


def _of_the_fleet(world: World, expect: Expect) -> Iterator[Difference]:
    hold_counts = Counter(
        job.hold.reason for job in world.jobs if job.open and job.hold is not None
    )
    actual: Mapping[str, Any] = {
        "open_jobs": sum(job.open for job in world.jobs),
        "total_jobs": len(world.jobs),
        "held": dict(hold_counts),
    }
    for name, value in actual.items():
        wanted = getattr(expect, name)
        if wanted is not None and wanted != value:
            lines = tuple(_format_job(job) for job in world.jobs[:8])
            yield Difference(_alias(name), f"expected {_shown(wanted)}, is {_shown(value)}", lines)


def _of_node(world: World, node: str, expect: Expect) -> Iterator[Difference]:
    checks: Sequence[Callable[[World, str, Expect], Iterator[Difference]]] = (
        _job,
        _of_the_job,
        _notified,
        _matches,
        _guards,
        _waits,
        _facts,
        _rest,
    )
    for check in checks:
        for difference in check(world, node, expect):
            place = f"node {node} at {written(expect.at)}: {difference.key}: {difference.message}"
            yield Difference(difference.key, place, difference.explain)


def _job(world: World, node: str, expect: Expect) -> Iterator[Difference]:
    wanted, job = expect.job, _latest(world, node)
    if wanted is None:
        return
    if wanted == NONE:
        if job is not None:
            text = f"expected none, but there is {_format_job(job)}"
            yield Difference("job", text, tuple(job.explanation.splitlines()))
    elif job is None:
        rule = None if wanted in ("open", "closed") else wanted
        yield Difference("job", f"expected {wanted}, there is none", _why_none(world, node, rule))
    elif wanted in ("open", "closed"):
        if job.open is not (wanted == "open"):
            yield Difference("job", f"expected one that is {wanted}, is {_format_job(job)}")
    elif job.remedier != wanted:
        text = f"expected one of {wanted}, is {_format_job(job)}"
        yield Difference("job", text, _why_none(world, node, wanted))


def _of_the_job(world: World, node: str, expect: Expect) -> Iterator[Difference]:
    keys = [name for name in _JOB if getattr(expect, name) is not None]
    job = _latest(world, node)
    if keys and job is None:
        key = _alias(keys[0])
        wanted = getattr(expect, keys[0])
        why = _why_none(world, node, expect.remedier)
        yield Difference(key, f"expected {_shown(wanted)}, but no job was made", why)
        return
    for name in keys:
        assert job is not None  # else reported above
        wanted, actual = getattr(expect, name), _JOB[name](job)
        if name == "rung" and isinstance(wanted, int):
            actual = len(job.ladder) and _index(job)
        if wanted != actual:
            text = f"expected {_shown(wanted)}, is {_shown(actual)}"
            lines = (_format_job(job), *_format_holds(job))
            yield Difference(_alias(name), text, lines)


_JOB: Mapping[str, Callable[[JobRecord], Any]] = {
    "remedier": lambda job: job.remedier,
    "rung": lambda job: job.rung.name,
    "start_rung": lambda job: job.start_rung,
    "phase": lambda job: job.phase.value,
    "hold": lambda job: job.hold.reason if job.hold is not None else NONE,
    "mode": lambda job: job.mode.value,
    "severity": lambda job: job.rule.spec.severity.value,
    "fault_class": lambda job: job.rule.spec.fault_class,
    "close_reason": lambda job: job.close_reason.value if job.close_reason else NONE,
    "steps": lambda job: [step.name for step in job.steps if step.state == "Done"],
    "also_matched": lambda job: sorted(job.also_matched),
}


def _notified(world: World, node: str, expect: Expect) -> Iterator[Difference]:
    if expect.notified is None:
        return
    job = _latest(world, node)
    sent = job.notifications if job is not None else []
    lines = tuple(_format_notification(each) for each in sent)
    if len(sent) != len(expect.notified):
        text = f"expected {len(expect.notified)} notifications, is {len(sent)}"
        yield Difference("notified", text, lines or _why_none(world, node, expect.remedier))
        return
    for number, (actual, wanted) in enumerate(zip(sent, expect.notified, strict=True), start=1):
        if not _is_expected(actual, wanted):
            text = f"{number}: expected {_shown(wanted.to_dict())}, is {lines[number - 1]}"
            yield Difference("notified", text, lines)


def _is_expected(sent: SentNotification, wanted: ExpectedNotification) -> bool:
    on = wanted.on in (None, sent.on)
    to = wanted.to is None or sorted(wanted.to) == sorted(sent.to)
    return on and to and _has_text(sent.says, wanted.says)


def _has_text(text: str, pattern: str | None) -> bool:
    """Return whether the text has the pattern, in which only `*` is special."""
    if pattern is None:
        return True
    literals = map(re.escape, pattern.split("*"))
    return re.fullmatch(".*".join(literals), text, re.DOTALL) is not None


def _format_notification(sent: SentNotification) -> str:
    return _shown({"on": sent.on, "to": list(sent.to), "says": sent.says})


def _index(job: JobRecord) -> int:
    return [rung.name for rung in job.ladder].index(job.rung.name)


def _matches(world: World, node: str, expect: Expect) -> Iterator[Difference]:
    if expect.matches is None:
        return
    actual = {_name(m.rule_id) for m in world.matches(node) if m.evidence is Truth.TRUE}
    wanted = set(expect.matches)
    if actual != wanted:
        differ = sorted(actual ^ wanted)[:RULES_EXPLAINED]
        text = f"expected {_shown(sorted(wanted))}, is {_shown(sorted(actual))}"
        yield Difference("matches", text, _explained(world, node, differ))


def _guards(world: World, node: str, expect: Expect) -> Iterator[Difference]:
    if expect.guards is None:
        return
    by_rule = {_name(match.rule_id): match.guards for match in world.matches(node)}
    truth_names = {Truth.TRUE: "true", Truth.FALSE: "false", Truth.UNKNOWN: UNKNOWN}
    for rule, wanted in expect.guards.items():
        guards = (
            truth_names[by_rule[rule]]
            if rule in by_rule
            else "of a rule that does not select the node"
        )
        if guards != wanted:
            text = f"{rule}: expected {wanted}, is {guards}"
            yield Difference("guards", text, _explained(world, node, [rule]))


def _waits(world: World, node: str, expect: Expect) -> Iterator[Difference]:
    actual = world.waits(node)
    for rule, wanted in (expect.waits or {}).items():
        why = str(actual.get(rule, NONE))
        if why != wanted:
            text = f"{rule}: expected {wanted}, is {why}"
            yield Difference("waits", text, _explained(world, node, [rule]))


def _facts(world: World, node: str, expect: Expect) -> Iterator[Difference]:
    for name, wanted in (expect.facts or {}).items():
        if problem := no_fact(world, name):
            yield Difference("facts", problem)
            continue
        actual = fact(world, node, name)
        if isinstance(wanted, Compared):
            holds, text = wanted.holds(actual), _shown(wanted.to_dict())
        else:
            holds = actual is None if wanted == UNKNOWN else _equal(actual, wanted)
            text = _shown(wanted)
        if not holds:
            value = UNKNOWN if actual is None else _shown(actual)
            yield Difference("facts", f"{name}: expected {text}, is {value}")


def _rest(world: World, node: str, expect: Expect) -> Iterator[Difference]:
    there = world.nodes.get(node)
    actual: Mapping[str, Any] = {
        "jobs": len(world.jobs_of(node)),
        "asked": sorted(set(world.list_probes(node))),
        "cordoned": there is not None and there.spec.unschedulable,
    }
    for name, value in actual.items():
        wanted = getattr(expect, name)
        if name == "asked" and wanted is not None:
            wanted = sorted(set(wanted))
        if wanted is not None and wanted != value:
            lines = tuple(_format_job(job) for job in world.jobs_of(node))
            yield Difference(_alias(name), f"expected {_shown(wanted)}, is {_shown(value)}", lines)


# -- facts ------------------------------------------------------------------------------------


def no_fact(world: World, name: str) -> str:
    """Return an error text if no such fact exists, else ""."""
    known = {*BUILTIN, *PROBES, *(rule.spec.infer.fact for rule in _inferring(world))}
    if name in known:
        return ""
    return f"{name}: no such fact: name a built-in, probe or derived one{near(name, known)}"


def fact(world: World, node: str, name: str) -> Value | None:
    """Return the value of a built-in, probe or inferred fact of the node now; None if unknown."""
    facts = world.facts(node)
    if facts is None:
        return None
    if name in PROBES:
        answer = facts.probes.get(name)
        return answer.value if answer is not None else None
    if name in BUILTIN:
        return facts.values.get(name)
    if name in facts.inferred:
        return facts.inferred[name]
    return _inferred_of_the_node(world, node, name)


def _inferred_of_the_node(world: World, node: str, name: str) -> Value | None:
    """Return the inferred value of the first rule that holds, in the order of priority.

    The engines chain such facts internally, so the fact set does not contain them.
    """
    evidence = {_name(match.rule_id): match.evidence for match in world.matches(node)}
    rules = [r for r in _inferring(world) if r.spec.infer.fact == name]
    rules = [r for r in rules if r.spec.infer.scope is Scope.NODE]
    truths = [evidence.get(rule.metadata.name, Truth.FALSE) for rule in rules]
    for rule, truth in zip(rules, truths, strict=True):
        if truth is Truth.TRUE:
            value: Value = rule.spec.infer.value
            return value
    return None if Truth.UNKNOWN in truths else False


def _inferring(world: World) -> list[Any]:
    inferring = [rule for rule in world.rules.values() if rule.spec.infer is not None]
    return sorted(inferring, key=lambda rule: (-rule.spec.priority, rule.metadata.name))


def _equal(actual: Value | None, wanted: Value) -> bool:
    """Compare two values. Unlike in Python, a number never equals a boolean."""
    return isinstance(actual, bool) is isinstance(wanted, bool) and actual == wanted


# -- telling ----------------------------------------------------------------------------------


def _latest(world: World, node: str) -> JobRecord | None:
    jobs = world.jobs_of(node)
    return jobs[-1] if jobs else None


def _why_none(world: World, node: str, rule: str | None) -> tuple[str, ...]:
    """Explain why no job of `rule`, or of any rule if None, was made for the node."""
    waits = world.waits(node)
    lines = [f"rule {name} matches, but makes no job: {why}" for name, why in waits.items()]
    if rule is not None:
        return (*lines, *_explained(world, node, [rule]))
    near_rules = [_name(match.rule_id) for match in world.matches(node) if match.true_leaves]
    return (*lines, *_explained(world, node, [*waits, *near_rules][:RULES_EXPLAINED]))


def _explained(world: World, node: str, rules: Sequence[str]) -> tuple[str, ...]:
    unique = dict.fromkeys(rules)
    return tuple(line for rule in unique for line in world.explain(node, rule).splitlines())


def _format_job(job: JobRecord) -> str:
    ended = f", {job.message}" if job.message else ""
    rung = f", rung {job.rung.name}" if job.rungs else ""
    return (
        f"job {job.name} of {job.remedier} for node {job.node}, made {format_time(job.made)},"
        f" {job.phase.value}{rung}{ended}"
    )


def _format_holds(job: JobRecord) -> tuple[str, ...]:
    return tuple(
        f"held {hold.reason} from {format_time(hold.since)}: {hold.message}"
        for hold in job.holds[-RULES_EXPLAINED:]
    )


def _name(rule_id: str) -> str:
    return rule_id.rpartition("@")[0]


def _alias(name: str) -> str:
    return Expect.model_fields[name].alias or name


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(str, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{k}: {_shown(v)}' for k, v in value.items())}}}"
    return str(value)
