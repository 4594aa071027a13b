"""Checks of `kubenode doctor`. Pure: what was read in, results with what to do out."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from defender.dashboard.rule import RuleView
from defender.overview.notices import never_acts
from defender.overview.programs import (
    EVERYTHING,
    LEADER_SECONDS,
    TITLES,
    cover_agents,
    find_leaderless,
)
from defender.replicas.lifesigns import agent_of
from kubenode.api.names import list_first
from kubenode.cli.fleet_state import DEFENDER, FleetState

OLDEST_VERSION = (1, 31)
NEWEST_VERSION = (1, 37)
"""Supported minor versions of Kubernetes: agents watch their jobs with `selectableFields`, which
1.31 serves by default; the tests run on the newest version (tests/control_plane).
"""
MOST_NAMED = 5
CLOCK_SECONDS = 1.0
"""Offset of a host's clock from which on it is reported."""
KUBELET_CONDITIONS = frozenset(
    {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"}
)
RECEIVER_FIELDS = ("receiver", "webhook")
"""Fields of steps that name one receiver."""
PEOPLE = "charts/kubenode/people.yaml"


class CheckState(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One line of the report.

    check: what was checked.
    remedy: what to do, "" if the state is OK.
    """

    check: str
    state: CheckState
    text: str
    remedy: str = ""


def is_ok(check: str, text: str) -> CheckResult:
    return CheckResult(check, CheckState.OK, text)


def is_warning(check: str, text: str, remedy: str) -> CheckResult:
    return CheckResult(check, CheckState.WARNING, text, remedy)


def is_problem(check: str, text: str, remedy: str) -> CheckResult:
    return CheckResult(check, CheckState.PROBLEM, text, remedy)


# -- server, rights and kinds


def check_version(answer: Mapping[str, Any]) -> CheckResult:
    """answer: of /version."""
    text = str(answer.get("gitVersion") or "unknown")
    try:
        version = int(str(answer["major"])), int(str(answer["minor"]).rstrip("+"))
    except (KeyError, ValueError):
        remedy = "check that --kubeconfig and --context name a Kubernetes API server"
        return is_warning("server version", f"cannot be read: {text}", remedy)
    if version < OLDEST_VERSION:
        oldest = ".".join(map(str, OLDEST_VERSION))
        remedy = f"upgrade the cluster to Kubernetes {oldest} or later"
        return is_problem("server version", f"{text} is older than {oldest}", remedy)
    if version > NEWEST_VERSION:
        newest = ".".join(map(str, NEWEST_VERSION))
        remedy = "upgrade KubeNode to a version that lists this one in docs/install.md"
        return is_warning(
            "server version", f"{text} is newer than {newest}, the last tested", remedy
        )
    return is_ok("server version", text)


@dataclass(frozen=True, slots=True)
class AccessRight:
    """A right of a person. role: the ClusterRole of people.yaml that has it."""

    verb: str
    group: str
    resource: str
    role: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{'.' if self.group else ''}{self.group}"


def check_rights(allowed: Mapping[AccessRight, bool]) -> Iterator[CheckResult]:
    """Reading is needed by everyone; the rights to act are a warning only."""
    roles: dict[str, list[AccessRight]] = {}
    for right, is_allowed in allowed.items():
        if not is_allowed:
            roles.setdefault(right.role, []).append(right)
    if not roles:
        yield is_ok("your rights", f"the {len(allowed)} checked rights are there")
    for role, rights in sorted(roles.items()):
        text = f"you may not {_list_some(map(str, rights))}"
        remedy = f"ask for ClusterRole {role} of {PEOPLE}"
        result = is_problem if role == "kubenode-viewer" else is_warning
        yield result("your rights", text, remedy)


def check_definitions(
    own: Sequence[Mapping[str, Any]], live: Mapping[str, Mapping[str, Any] | None] | None
) -> Iterator[CheckResult]:
    """live: definitions by name, None for one that does not exist. None: not readable."""
    if live is None:
        yield is_warning("kinds", "you may not read CustomResourceDefinitions",
                         "run it as an administrator to check their versions")  # fmt: skip
        return
    names = {definition["metadata"]["name"]: definition for definition in own}
    missing = [name for name in names if live.get(name) is None]
    present = {name: each for name in names if (each := live.get(name)) is not None}
    waiting = [name for name, each in present.items() if not _is_established(each)]
    old = [n for n, each in present.items() if not contains(each["spec"], names[n]["spec"])]
    if missing:
        yield is_problem("kinds", f"not installed: {_list_some(missing)}", "run `kubenode install`")
    if waiting:
        yield is_problem("kinds", f"not served yet: {_list_some(waiting)}",
                         "look at their conditions: kubectl describe crd NAME")  # fmt: skip
    if old:
        remedy = "run `kubenode install` of the version that the programs have"
        yield is_problem("kinds", f"of another version: {_list_some(old)}", remedy)
    if not (missing or waiting or old):
        yield is_ok("kinds", f"{len(names)} kinds of this version are served")


def _is_established(definition: Mapping[str, Any]) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)


def contains(live: Any, own: Any) -> bool:
    """Return whether `live` is `own`, with defaults that the server added."""
    if isinstance(own, Mapping):
        return isinstance(live, Mapping) and all(
            key in live and contains(live[key], value) for key, value in own.items()
        )
    if isinstance(own, list | tuple):
        return (
            isinstance(live, list)
            and len(live) == len(own)
            and all(contains(a, b) for a, b in zip(live, own, strict=True))
        )
    return bool(live == own)


# -- programs and webhooks


def check_programs(state: FleetState) -> Iterator[CheckResult]:
    if state.leases is None:
        yield is_warning("programs", "you may not read their Leases",
                         "run `kubenode doctor` as an administrator")  # fmt: skip
        return
    leases = {name for name, age in state.leases.items() if age < LEADER_SECONDS}
    gone = {DEFENDER: "Kube Defender"} if not leases & {DEFENDER, EVERYTHING} else {}
    leaderless = find_leaderless(state.programs, state.rules.values(), len(state.rollouts))
    gone |= {name: TITLES[name] for name in leaderless}
    for lease, title in gone.items():
        program = "`kubenode run " + lease.removeprefix("kubenode-") + "`"
        yield is_problem("programs", f"{title} has no leader: nobody renews Lease {lease}",
                         f"start {program}, or find out why its pods do not run")  # fmt: skip
    if not gone:
        yield is_ok("programs", f"leaders hold {', '.join(sorted(leases))}")


@dataclass(frozen=True, slots=True)
class WebhookState:
    """One webhook of ours.

    configuration: name of the webhook configuration.
    service: its Service as NAMESPACE/NAME, "" for an address by URL.
    endpoints: number of ready endpoints of the Service; None if unknown.
    trusted: whether the configuration has a CA bundle.
    """

    configuration: str
    webhook: str
    service: str
    endpoints: int | None
    trusted: bool


def check_webhooks(webhooks: Sequence[WebhookState] | None) -> Iterator[CheckResult]:
    """webhooks: None if not readable."""
    if webhooks is None:
        yield is_warning("webhooks", "you may not read webhook configurations",
                         "run `kubenode doctor` as an administrator")  # fmt: skip
        return
    if not any(each.configuration == "kubenode-remedy" for each in webhooks):
        yield is_warning("webhooks", "the webhook of rules and approvals is not registered:"
                         " approvals carry no checked author, rules are checked late",
                         "set remedy.webhook.enabled of the chart")  # fmt: skip
    for each in webhooks:
        if each.endpoints == 0:
            yield is_problem("webhooks", f"{each.webhook}: no ready endpoint of {each.service}",
                             "start its program with --webhook-port or --guard-port")  # fmt: skip
        elif not each.trusted:
            yield is_problem("webhooks", f"{each.webhook}: no CA bundle, so it cannot be called",
                             "see docs/install.md, Certificates")  # fmt: skip
        else:
            yield is_ok("webhooks", f"{each.webhook} is registered")


# -- agents, clocks, receivers


def check_agents(state: FleetState) -> CheckResult:
    if state.agents is None:
        return is_warning(
            "agents", "you may not read their Leases", "run `kubenode doctor` as an administrator"
        )
    agents = map(agent_of, state.objects.nodes.values())
    coverage = cover_agents(state.programs, agents, state.rules.values())
    text = f"{coverage.with_agent} of {coverage.nodes} nodes have an agent"
    if coverage.lacks:
        text += f", and {len(coverage.rules)} rules need one: {_list_some(coverage.rules)}"
        return is_problem("agents", text, "set agent.enabled of the chart, or install the package")
    return is_ok("agents", text)


def check_clocks(state: FleetState) -> CheckResult:
    wrong = {name: s for name, s in state.offsets.items() if abs(s) >= CLOCK_SECONDS}
    if wrong:
        worst = sorted(wrong.items(), key=lambda pair: (-abs(pair[1]), pair[0]))
        text = _list_some(f"{name} {seconds:+.1f} s" for name, seconds in worst)
        return is_warning("clocks", f"hosts' clocks are off: {text}", "check chronyd or timesyncd")
    if not state.offsets:
        return is_ok("clocks", "no agent reports an offset")
    return is_ok("clocks", f"{len(state.offsets)} hosts are within {CLOCK_SECONDS:g} s")


def check_receivers(rules: Iterable[RuleView], configured: Collection[str] | None) -> CheckResult:
    """configured: names of the receivers' file; None without the file."""
    named = sorted({name for rule in rules for name in _receivers(rule)})
    if configured is None:
        if not named:
            return is_ok("receivers", "no rule names one")
        text = f"rules name {_list_some(named)}; the operator's file was not checked"
        return is_warning("receivers", text, "pass the operator's file with --receivers-file")
    if missing := [name for name in named if name not in configured]:
        text = f"rules name receivers that the file lacks: {_list_some(missing)}"
        return is_problem("receivers", text, "add them to the file, or correct the rules")
    return is_ok("receivers", f"{len(configured)} in the file, {len(named)} named by rules")


def _receivers(rule: RuleView) -> Iterator[str]:
    """Yield the receivers that a rule and its steps name."""
    yield from rule.spec.notify
    for mapping in _mappings(list(rule.spec.ladder)):
        yield from map(str, mapping.get("receivers") or ())
        yield from (mapping[k] for k in RECEIVER_FIELDS if isinstance(mapping.get(k), str))


def _mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the mapping and those below it."""
    if isinstance(value, Mapping):
        yield value
        value = list(value.values())
    for each in value if isinstance(value, list) else ():
        yield from _mappings(each)


# -- detectors and rules


def check_detectors(state: FleetState) -> Iterator[CheckResult]:
    nodes = state.objects.nodes.values()
    present = {condition.type for node in nodes for condition in node.status.conditions}
    reading: dict[str, set[str]] = {}
    for name, rule in state.rules.items():
        spec = rule.spec
        if spec.mode != "Off":
            for type_ in _condition_types([spec.when, spec.unless, list(spec.ladder)]):
                reading.setdefault(type_, set()).add(name)
    unread = sorted(present - set(reading) - KUBELET_CONDITIONS)
    absent = sorted(set(reading) - present)
    if unread:
        yield is_warning("detectors", f"no rule reads these node conditions: {_list_some(unread)}",
                         "write a rule, or stop the detector")  # fmt: skip
    if absent:
        rules = len(set().union(*(reading[type_] for type_ in absent)))
        text = f"{rules} rules read node conditions that no node has: {_list_some(absent)}"
        remedy = "install the detector that reports them, or turn the rules off"
        yield is_warning("detectors", text, remedy)
    if not (unread or absent):
        yield is_ok("detectors", f"{len(reading)} condition types are reported and read")


def _condition_types(value: Any) -> Iterator[str]:
    for mapping in _mappings(value):
        leaf = mapping.get("condition")
        if isinstance(leaf, Mapping) and "type" in leaf:
            yield str(leaf["type"])


def check_rules(state: FleetState) -> Iterator[CheckResult]:
    """Report rules that can never act here, and why."""
    active = {name: rule for name, rule in state.rules.items() if rule.spec.mode != "Off"}
    if not active:
        yield is_warning("rules", "no rule is loaded: nothing is diagnosed",
                         "run `kubenode rules install all`; new rules are in DryRun")  # fmt: skip
        return
    dead = {name: why for name, rule in sorted(active.items()) if (why := never_acts(rule))}
    for name, why in list(dead.items())[:MOST_NAMED]:
        yield is_problem("rules", f"{name} cannot act: {why}", f"kubenode rules lint, or"
                         f" kubectl describe noderemedier {name}")  # fmt: skip
    if len(dead) > MOST_NAMED:
        yield is_problem("rules", f"{len(dead) - MOST_NAMED} more rules cannot act",
                         "kubectl get noderemediers")  # fmt: skip
    nowhere = [name for name, rule in sorted(active.items()) if rule.status.would_reach.nodes == 0]
    if nowhere:
        yield is_warning("rules", f"{len(nowhere)} rules select no node: {_list_some(nowhere)}",
                         "label the nodes, correct spec.nodes, or turn the rules off")  # fmt: skip
    if not (dead or nowhere):
        yield is_ok("rules", f"{len(active)} rules, and each can match: {_count_modes(active)}")


def _count_modes(rules: Mapping[str, RuleView]) -> str:
    """Return the number of rules by mode. Rules without a ladder act in no mode."""
    modes = Counter(rule.spec.mode for rule in rules.values() if rule.spec.ladder)
    shown = [f"{many} in {mode}" for mode, many in sorted(modes.items())]
    if inferring := len(rules) - modes.total():
        shown.append(f"{inferring} only infer causes")
    return ", ".join(shown)


def _list_some(names: Iterable[str]) -> str:
    return list_first(names, MOST_NAMED)
