"""Annotations of installed rules of the library: the pack, and a digest of the rule as installed.

The digest tells a rule that a person changed from a rule of an older library. It excludes the mode,
which people are meant to change.
"""

import hashlib
import json
from collections.abc import Sequence

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.library import explain_unknown, packs

PACK = "kubenode.io/pack"
DIGEST = "kubenode.io/library-digest"
ALL = "all"


def digest(rule: NodeRemedier) -> str:
    """Return the digest of the spec without mode and defaults.

    The API server fills in defaults, and later versions may add some.
    """
    spec = rule.spec.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude_defaults=True
    )
    spec.pop("mode", None)
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def changed(live: NodeRemedier) -> bool | None:
    """Return whether a person changed an installed rule; None if it is not of the library."""
    mark = live.metadata.annotations.get(DIGEST)
    return None if mark is None else mark != digest(live)


def chosen(wanted: Sequence[str]) -> dict[str, list[NodeRemedier]]:
    """Return the rules named by `PACK`, `PACK/RULE` or `all`, by pack. Raises Refusal."""
    there = packs()
    by_pack: dict[str, dict[str, NodeRemedier]] = {}
    for word in there if ALL in wanted else wanted:
        pack, _, name = word.partition("/")
        if pack not in there:
            raise Refusal(explain_unknown("pack", pack, there), Exit.USAGE)
        rules = {rule.metadata.name: rule for rule in there[pack]}
        if name and name not in rules:
            raise Refusal(explain_unknown(f"pack {pack}: rule", name, rules), Exit.USAGE)
        by_pack.setdefault(pack, {}).update({name: rules[name]} if name else rules)
    return {pack: list(rules.values()) for pack, rules in by_pack.items()}
