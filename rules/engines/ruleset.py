"""The compiled form for durable_rules: flat patterns over booleans, and no other shape.

A rule matches one fact with a flat `$and` of equalities and keeps no state. Each disjunct of a root
becomes one durable rule. Names are generated and contain no user text. `refusal` is the child's
last check before it passes a ruleset to C code with known defects: too many terms, or other
operators, crash it or give wrong answers (rules#312 and rules#381 of jruizgit/rules).

Rulesets are small. A question about some rules asserts one short fact for each of their rulesets,
and one long ruleset is no faster than several short ones (measured: 60 terms take 20 microseconds,
as do five times 12 terms). Smaller ones would take more memory.

The child imports this module, so it uses the standard library only.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

MOST_TERMS = 60
"""Terms of a ruleset. With 65 terms that match one fact, durable_rules returns nothing."""
FEW_TERMS = 32
"""A ruleset with this many terms takes no further rule."""
MOST_PROPERTIES = 240
_RULE_NAME = re.compile(r"r[0-9]{1,6}[eg][pn]#[0-9]{1,3}")
_PROPERTY = re.compile(r"[tf][0-9]{1,6}")
PROBE = {"all": [{"m": {"k": "probe"}}]}
_FIXED = ("k", "id", "sid", "probe")
"""Names in every ruleset besides those of its rules and slots."""

Term = tuple[str, Sequence[tuple[int, bool]]]
"""Name of a durable rule, and its literals."""


class _OpenRuleset:
    """A ruleset that is being filled."""

    def __init__(self) -> None:
        self.rules: dict[str, Any] = {}
        self.slots: set[int] = set()
        self._hashes = {fnv(name) for name in _FIXED}

    def add(self, terms: Sequence[Term], most: int) -> bool:
        """Add all `terms` and return True, or change nothing and return False if they do not
        fit.
        """
        slots = self.slots | {slot for _, literals in terms for slot, _ in literals}
        if len(self.rules) + len(terms) > most or 2 * len(slots) > MOST_PROPERTIES:
            return False
        names = [*(name for name, _ in terms), *_properties(slots - self.slots)]
        hashes = {fnv(name) for name in names}
        if len(hashes) < len(names) or hashes & self._hashes:
            return False
        self.rules |= {name: _rule(literals) for name, literals in terms}
        self.slots, self._hashes = slots, self._hashes | hashes
        return True

    def made(self) -> dict[str, Any]:
        return {"rules": self.rules, "slots": sorted(self.slots)}


def rulesets(groups: Iterable[Sequence[Term]]) -> tuple[list[dict[str, Any]], list[list[int]]]:
    """Distribute terms over rulesets `{"rules": {name: definition}, "slots": [numbers]}`.

    Return the rulesets and, for each group, the numbers of the rulesets with its terms. A group
    stays in one ruleset if it fits. Raises ValueError for a term with more literals than a ruleset
    may have properties.
    """
    made: list[_OpenRuleset] = []
    places: list[list[int]] = []
    for terms in groups:
        if not made or not made[-1].add(terms, FEW_TERMS):
            made.append(_OpenRuleset())
            if not made[-1].add(terms, MOST_TERMS):
                made.pop()
                places.append([*_split(terms, made)])
                continue
        places.append([len(made) - 1])
    return [ruleset.made() for ruleset in made], places


def _split(terms: Sequence[Term], made: list[_OpenRuleset]) -> Iterator[int]:
    """Distribute a group that is too large for one ruleset over rulesets of its own."""
    made.append(_OpenRuleset())
    yield len(made) - 1
    for name, literals in terms:
        if not made[-1].add([(name, literals)], MOST_TERMS):
            made.append(_OpenRuleset())
            if not made[-1].add([(name, literals)], MOST_TERMS):
                raise ValueError(f"{name} asks {len(literals)} facts at once")
            yield len(made) - 1


def _properties(slots: Iterable[int]) -> Iterator[str]:
    return (f"{sign}{slot}" for slot in slots for sign in "tf")


@lru_cache(maxsize=1 << 16)
def fnv(name: str) -> int:
    """Return the 32-bit FNV-1a hash by which durable_rules identifies a name."""
    digest = 0x811C9DC5
    for byte in name.encode():
        digest = ((digest ^ byte) * 0x01000193) & 0xFFFFFFFF
    return digest


def _rule(literals: Sequence[tuple[int, bool]]) -> dict[str, Any]:
    equalities = [{f"{'t' if known else 'f'}{slot}": True} for slot, known in literals]
    return {"all": [{"m": {"$and": [{"k": "eval"}, *equalities]}}]}


def refusal(ruleset: object) -> str:
    """Describe why `ruleset` must not be loaded; "" if it may be."""
    if not isinstance(ruleset, Mapping) or set(ruleset) != {"rules", "slots"}:
        return "a ruleset has rules and slots"
    rules, slots = ruleset["rules"], ruleset["slots"]
    if not isinstance(rules, Mapping) or not 0 < len(rules) <= MOST_TERMS:
        return f"a ruleset has 1 to {MOST_TERMS} rules"
    if not isinstance(slots, list) or not all(type(s) is int and 0 <= s < 10**6 for s in slots):
        return "slots are small numbers"
    if 2 * len(slots) > MOST_PROPERTIES or len(set(slots)) != len(slots):
        return f"a ruleset has at most {MOST_PROPERTIES // 2} different slots"
    properties = set(_properties(slots))
    for name, rule in rules.items():
        if not isinstance(name, str) or not _RULE_NAME.fullmatch(name):
            return "a rule's name is generated"
        if not _flat(rule, properties):
            return f"{name} is no flat pattern over the slots"
    if clash := alike([*_FIXED, *rules, *properties]):
        return f"{clash[0]} and {clash[1]} are one name to durable_rules"
    return ""


def alike(names: Iterable[str]) -> tuple[str, str] | None:
    """Return the first two different names with the same hash; None if there are none."""
    known: dict[int, str] = {}
    for name in names:
        other = known.setdefault(fnv(name), name)
        if other != name:
            return other, name
    return None


def _flat(rule: object, properties: set[str]) -> bool:
    pattern = _only(rule, "all")
    if not isinstance(pattern, list) or len(pattern) != 1:
        return False
    equalities = _only(_only(pattern[0], "m"), "$and")
    if not isinstance(equalities, list) or len(equalities) < 2 or equalities[0] != {"k": "eval"}:
        return False
    return all(_equality(equality, properties) for equality in equalities[1:])


def _only(value: object, key: str) -> object:
    """Return the value of `key` if it is the only key; else None."""
    return value[key] if isinstance(value, Mapping) and list(value) == [key] else None


def _equality(equality: object, properties: set[str]) -> bool:
    if not isinstance(equality, Mapping) or len(equality) != 1:
        return False
    ((name, value),) = equality.items()
    known = isinstance(name, str) and bool(_PROPERTY.fullmatch(name)) and name in properties
    return known and value is True
