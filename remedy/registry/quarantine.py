"""Rules that the engines disagree about: for how long they are observed only. Pure.

A dispute lasts until the rule's generation changes, the engines are others (a new image), or a
person clears it. It outlives our restart in the rule's own status: `EnginesAgree=False`, which
names the fact that was disputed and the engines that did.

    kubectl annotate noderemedier NAME kubenode.io/clear-quarantine=$(date -u +%FT%TZ)

clears what was disputed before that instant, and nothing later.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from kubenode.api.meta import ConditionStatus
from kubenode.api.v1alpha1 import NodeRemedier
from remedy.registry.status import ENGINES_AGREE

CLEAR = "kubenode.io/clear-quarantine"
"""Annotation of a NodeRemedier: an instant, RFC 3339."""


@dataclass(frozen=True, slots=True)
class Dispute:
    """why  a sentence that names the fact's hash and the engines; it holds no ticking value"""

    why: str
    since: datetime


def _version(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"{package} unknown"


ENGINES = f"{_version('kubenode')}, {_version('durable-rules')}"
"""What disagreed. Of another image nothing is known yet."""


def sentence(why: str, engines: str = ENGINES) -> str:
    """why  what the engines' side says; it names the fact by its hash"""
    return f"{why}; engines: {engines}"


def cleared(rule: NodeRemedier, dispute: Dispute, now: datetime) -> bool:
    """Whether a person has cleared it. An instant that is still to come clears nothing."""
    text = rule.metadata.annotations.get(CLEAR, "")
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return False
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    # Written to the second by `date`: what was disputed within that second is meant too.
    return dispute.since.replace(microsecond=0) <= at <= now


def restored(
    rule: NodeRemedier, loaded: str, now: datetime, engines: str = ENGINES
) -> Dispute | None:
    """What its status says of a dispute about the version of hash `loaded`; None for none."""
    said = next((c for c in rule.status.conditions if c.type == ENGINES_AGREE), None)
    if said is None or said.status is not ConditionStatus.FALSE:
        return None
    if rule.status.compiled_hash != loaded or not said.message.endswith(f"engines: {engines}"):
        return None
    dispute = Dispute(said.message, said.last_transition_time)
    return None if cleared(rule, dispute, now) else dispute
