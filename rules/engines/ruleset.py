"""The compiled form for durable_rules: flat patterns over booleans, and the only shape it may have.

Pattern P-A of the engine's design: one fact, a flat `$and` of equalities, stateless. Each disjunct
of a root becomes one durable rule. Names are generated and carry no user text. `acceptable` is the
child's last look before it hands a ruleset to C code with known hazards (rules#312, rules#381 of
jruizgit/rules: too many terms, or other operators, crash it or answer wrongly).

This module is imported by the child: it needs nothing but the standard library.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MOST_TERMS = 60
MOST_PROPERTIES = 240
_RULE_NAME = re.compile(r"r[0-9]{1,6}[eg][pn]#[0-9]{1,3}")
_PROPERTY = re.compile(r"[tf][0-9]{1,6}")
PROBE = {"all": [{"m": {"k": "probe"}}]}

Term = tuple[str, Sequence[tuple[int, bool]]]
"""Name of the durable rule, and its literals."""


def rulesets(terms: Iterable[Term]) -> list[dict[str, Any]]:
    """`terms` in as few rulesets as the limits allow.

    Each is `{"rules": {name: definition}, "slots": [numbers]}`. A term with more literals than a
    ruleset may have properties cannot be given; ValueError.
    """
    made: list[dict[str, Any]] = []
    rules: dict[str, Any] = {}
    slots: set[int] = set()
    for name, literals in terms:
        needed = {slot for slot, _ in literals}
        if 2 * len(needed) > MOST_PROPERTIES:
            raise ValueError(f"{name} asks {len(needed)} facts at once")
        full = len(rules) >= MOST_TERMS or 2 * len(slots | needed) > MOST_PROPERTIES
        if rules and full:
            made.append({"rules": rules, "slots": sorted(slots)})
            rules, slots = {}, set()
        rules[name] = _rule(literals)
        slots |= needed
    if rules:
        made.append({"rules": rules, "slots": sorted(slots)})
    return made


def _rule(literals: Sequence[tuple[int, bool]]) -> dict[str, Any]:
    asked = [{f"{'t' if known else 'f'}{slot}": True} for slot, known in literals]
    return {"all": [{"m": {"$and": [{"k": "eval"}, *asked]}}]}


def refusal(ruleset: object) -> str:
    """Why `ruleset` may not be loaded; "" if it may."""
    if not isinstance(ruleset, Mapping) or set(ruleset) != {"rules", "slots"}:
        return "a ruleset has rules and slots"
    rules, slots = ruleset["rules"], ruleset["slots"]
    if not isinstance(rules, Mapping) or not 0 < len(rules) <= MOST_TERMS:
        return f"a ruleset has 1 to {MOST_TERMS} rules"
    if not isinstance(slots, list) or not all(type(s) is int and 0 <= s < 10**6 for s in slots):
        return "slots are small numbers"
    if 2 * len(slots) > MOST_PROPERTIES or len(set(slots)) != len(slots):
        return f"a ruleset has at most {MOST_PROPERTIES // 2} different slots"
    properties = {f"{sign}{slot}" for slot in slots for sign in "tf"}
    for name, rule in rules.items():
        if not isinstance(name, str) or not _RULE_NAME.fullmatch(name):
            return "a rule's name is generated"
        if not _flat(rule, properties):
            return f"{name} is no flat pattern over the slots"
    return ""


def _flat(rule: object, properties: set[str]) -> bool:
    pattern = _only(rule, "all")
    if not isinstance(pattern, list) or len(pattern) != 1:
        return False
    asked = _only(_only(pattern[0], "m"), "$and")
    if not isinstance(asked, list) or len(asked) < 2 or asked[0] != {"k": "eval"}:
        return False
    return all(_equality(one, properties) for one in asked[1:])


def _only(value: object, key: str) -> object:
    """What stands under `key`, if it is the only key; else None."""
    return value[key] if isinstance(value, Mapping) and list(value) == [key] else None


def _equality(asked: object, properties: set[str]) -> bool:
    if not isinstance(asked, Mapping) or len(asked) != 1:
        return False
    ((name, value),) = asked.items()
    known = isinstance(name, str) and bool(_PROPERTY.fullmatch(name)) and name in properties
    return known and value is True
