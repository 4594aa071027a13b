"""Selects the versions of rules to load. Pure.

There are three kinds: the newest version of every NodeRemedier that is not Off, the last good
version of one whose newest is rejected, and the versions that open jobs were made by. Only the
first two create jobs; the third is needed to assess the jobs that follow them.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kubenode.api.meta import NodeSelection, ObjectMeta
from kubenode.api.v1alpha1 import Mode, NodeRemedier, RemedyOperationJob
from kubenode.api.v1alpha1.noderemedier import NodeRemedierSpec
from remedy.job.conclusion import watched
from remedy.job.model import ACTING, Job
from remedy.job.steps.table import unable
from remedy.remedier.judge import rule_id
from rules.nodekeys import NodeKeys, key_fault


@dataclass(frozen=True, slots=True)
class SelectedRules:
    """`newest` and `frozen` by rule id; `refused` by name, with the reason, before any
    compilation.
    """

    newest: Mapping[str, NodeRemedier]
    frozen: Mapping[str, NodeRemedier]
    refused: Mapping[str, str]
    off: frozenset[str]


def id_of(rule: NodeRemedier) -> str:
    return rule_id(rule.metadata.name, rule.metadata.generation)


def wanted(
    rules: Iterable[NodeRemedier], jobs: Iterable[RemedyOperationJob], keys: NodeKeys
) -> SelectedRules:
    """Select the newest versions and the versions of jobs."""
    newest: dict[str, NodeRemedier] = {}
    refused: dict[str, str] = {}
    off = set()
    for rule in rules:
        name = rule.metadata.name
        if rule.metadata.deletion_timestamp is not None:
            continue
        if rule.spec.mode is Mode.OFF:
            off.add(name)
        elif why := unable(rule.spec) or key_fault(rule.spec, keys):
            refused[name] = why
        else:
            newest[id_of(rule)] = rule
    frozen = {id_: rule for id_, rule in map(_frozen, jobs) if rule is not None}
    return SelectedRules(
        newest=newest,
        frozen={id_: rule for id_, rule in frozen.items() if id_ not in newest},
        refused=refused,
        off=frozenset(off),
    )


def needs_its_rule(job: Job) -> bool:
    """Report whether the job still needs its rule: it is open and acts, or closed and its incident
    may still last.
    """
    return watched(job) if job.phase.closed else job.spec.mode in ACTING


def _frozen(obj: RemedyOperationJob) -> tuple[str, NodeRemedier | None]:
    """Return id and version of a job's rule as it was when the job was made; ("", None) if not
    needed.
    """
    job = Job.of(obj)
    reference, when = job.spec.remedier, job.spec.when
    if reference is None or when is None or not needs_its_rule(job):
        return "", None
    rule = NodeRemedier(
        metadata=ObjectMeta(
            name=reference.name, uid=reference.uid, generation=reference.generation
        ),
        spec=NodeRemedierSpec(
            mode=job.spec.mode,
            severity=job.spec.severity,
            fault_class=job.spec.fault_class,
            nodes=NodeSelection(all=True),  # the job's node was selected at its creation
            when=when,
            unless=job.spec.unless,
            ladder=job.spec.ladder,
        ),
    )
    return id_of(rule), rule


def digest(rule: NodeRemedier) -> str:
    """Return a hash of the whole spec: two versions with one digest do the same."""
    text = json.dumps(rule.spec.to_dict(), sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


class Digests:
    """Caches `digest` for each version of a rule."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], str] = {}

    def of(self, rule: NodeRemedier) -> str:
        key = _version(rule)
        if key not in self._known:
            self._known[key] = digest(rule)
        return self._known[key]

    def keep(self, rules: Iterable[NodeRemedier]) -> None:
        """Forget all other versions."""
        wanted = set(map(_version, rules))
        self._known = {key: text for key, text in self._known.items() if key in wanted}


def _version(rule: NodeRemedier) -> tuple[str, int]:
    return rule.metadata.uid or rule.metadata.name, rule.metadata.generation
