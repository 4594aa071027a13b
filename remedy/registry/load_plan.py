"""Computes what is loaded from what was selected and what the engine accepted. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kubenode.api.v1alpha1 import NodeRemedier
from remedy.registry.select import SelectedRules, id_of
from rules.nodekeys import NodeKeys, key_fault

Good = Mapping[str, NodeRemedier]
"""By name, the last version of a rule that was accepted."""


@dataclass(frozen=True, slots=True)
class LoadedRules:
    """Result of a load.

    good: by name, the last good version of every existing rule, loaded now or not (Off)
    running: by name, the versions that may create jobs
    why: by name, why the newest version is not among them
    taken: by id, everything that is loaded, including versions that open jobs follow
    generations: by name, the generation of the rule that this covers
    """

    good: Good = field(default_factory=dict)
    running: Good = field(default_factory=dict)
    why: Mapping[str, str] = field(default_factory=dict)
    taken: Mapping[str, NodeRemedier] = field(default_factory=dict)
    generations: Mapping[str, int] = field(default_factory=dict)


def still_there(
    good: Good, rules: Iterable[NodeRemedier], keys: NodeKeys
) -> dict[str, NodeRemedier]:
    """Return the good versions of existing rules. A rule that was recreated is another rule. A
    version that sets a key that is not allowed (any more) is not good.
    """
    uids = {rule.metadata.name: rule.metadata.uid for rule in rules}
    return {
        n: rule
        for n, rule in good.items()
        if uids.get(n) == rule.metadata.uid and not key_fault(rule.spec, keys)
    }


def to_load(want: SelectedRules, good: Good, refused: Mapping[str, str]) -> dict[str, NodeRemedier]:
    """Return by id: the newest versions, the last good one for each rejected rule, and those of
    jobs.
    """
    newest = {i: r for i, r in want.newest.items() if r.metadata.name not in refused}
    names = refused.keys() - want.off
    last_good = {id_of(r): r for n, r in good.items() if n in names}
    return {**want.frozen, **last_good, **newest}


def refusals(want: SelectedRules, rejected: Mapping[str, str]) -> dict[str, str]:
    """Return which newest versions the engine rejected, by name.

    A rejected version of an open job only keeps its job on hold.
    """
    return {
        want.newest[id_].metadata.name: str(why)
        for id_, why in rejected.items()
        if id_ in want.newest
    }


def outcome(
    rules: Iterable[NodeRemedier],
    want: SelectedRules,
    good: Good,
    requested: Mapping[str, NodeRemedier],
    rejected: Mapping[str, str],
    refused: Mapping[str, str],
) -> LoadedRules:
    """Compute the result of a load.

    requested: what was passed to the engine the last time
    rejected: what it did not accept of that, by id
    refused: why the newest version of a rule is not loaded, by name
    """
    generations = {rule.metadata.name: rule.metadata.generation for rule in rules}
    taken = {id_: rule for id_, rule in requested.items() if id_ not in rejected}
    why = {name: reason for name, reason in refused.items() if name in generations}
    newest = {r.metadata.name: r for id_, r in want.newest.items() if id_ in taken}
    running = {**newest}
    for name in why:
        newest.pop(name, None)
        running.pop(name, None)
        if name not in good:
            continue
        if id_of(good[name]) in taken and name not in want.off:
            running[name] = good[name]
        elif reason := rejected.get(id_of(good[name])):
            why[name] += f"; nor can its last good version be loaded: {reason}"
    return LoadedRules(
        good={n: r for n, r in {**good, **newest}.items() if n in generations},
        running=running,
        why=why,
        taken=taken,
        generations=generations,
    )
