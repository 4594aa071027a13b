"""How long rules that the engines disagree about may not act. Pure.

A dispute lasts until the rule's generation changes, the engines change (a new image), or a person
clears it. It outlives our restart in the rule's own status: `EnginesAgree=False`, which names the
disputed fact and the engines.

    kubectl annotate noderemedier NAME kubenode.io/clear-quarantine=$(date -u +%FT%TZ)

clears disputes from before that instant, and no later ones.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from kubenode.api.meta import ConditionStatus
from kubenode.api.v1alpha1 import NodeRemedier
from remedy.registry.status import ENGINES_AGREE

CLEAR = "kubenode.io/clear-quarantine"
"""Annotation of a NodeRemedier: an instant in RFC 3339."""


@dataclass(frozen=True, slots=True)
class Dispute:
    """A dispute. `why`: a sentence that names the fact's hash and the engines, without a ticking
    value.
    """

    why: str
    since: datetime


def _version(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"{package} unknown"


ENGINES = f"{_version('kubenode')}, {_version('durable-rules')}"
"""Versions of the engines that disagreed. A dispute does not apply to other versions."""


def sentence(why: str, engines: str = ENGINES) -> str:
    """Return the message of a dispute. `why`: the engines' reason, which names the fact by its
    hash.
    """
    return f"{why}; engines: {engines}"


def cleared(rule: NodeRemedier, dispute: Dispute, now: datetime) -> bool:
    """Report whether a person has cleared the dispute. An instant in the future clears nothing."""
    text = rule.metadata.annotations.get(CLEAR, "")
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return False
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    # `date` writes whole seconds: a dispute within that second is cleared too.
    return dispute.since.replace(microsecond=0) <= at <= now


def restored(
    rule: NodeRemedier, loaded: str, now: datetime, engines: str = ENGINES
) -> Dispute | None:
    """Return the dispute about the version with hash `loaded` from the rule's status; None for
    none.
    """
    condition = next((c for c in rule.status.conditions if c.type == ENGINES_AGREE), None)
    if condition is None or condition.status is not ConditionStatus.FALSE:
        return None
    if rule.status.compiled_hash != loaded or not condition.message.endswith(f"engines: {engines}"):
        return None
    dispute = Dispute(condition.message, condition.last_transition_time)
    return None if cleared(rule, dispute, now) else dispute
