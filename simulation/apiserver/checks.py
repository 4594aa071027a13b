"""Checks that validations of built-in kinds share, with the messages of a real server.

Source: apimachinery `pkg/util/validation/field`, `pkg/apis/meta/v1/validation`.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from simulation.apiserver.errors import Cause, Obj

LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = re.compile(rf"{LABEL}(\.{LABEL})*")
DNS_LABEL = re.compile(LABEL)
KEY = re.compile(r"[-._a-zA-Z0-9]+")
PERCENT = re.compile(r"[0-9]+%")
LARGEST_PORT = 65535
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def missing(path: str, why: str = "") -> Cause:
    return Cause(path, f"Required value{': ' if why else ''}{why}", "FieldValueRequired")


def wrong(path: str, value: Any, why: str) -> Cause:
    return Cause(path, f'Invalid value: "{value}": {why}')


def check_choice(path: str, value: Any, choices: Sequence[str]) -> Sequence[Cause]:
    """Check that `value` is one of `choices`, or absent."""
    if value is None or value in choices:
        return ()
    why = f'Unsupported value: "{value}": supported values: {", ".join(choices)}'
    return (Cause(path, why, "FieldValueNotSupported"),)


def at_least(path: str, value: Any, low: int) -> Sequence[Cause]:
    """Check that `value` is not below `low`, or absent."""
    if value is None or value >= low:
        return ()
    return (wrong(path, value, f"must be greater than or equal to {low}"),)


def port(path: str, value: Any) -> Sequence[Cause]:
    if not value:
        return (missing(path),)
    if 1 <= value <= LARGEST_PORT:
        return ()
    return (wrong(path, value, f"must be between 1 and {LARGEST_PORT}, inclusive"),)


def subdomain(path: str, value: str) -> Sequence[Cause]:
    if SUBDOMAIN.fullmatch(value):
        return ()
    return (wrong(path, value, "must be a lowercase RFC 1123 subdomain"),)


def distinct(path: str, items: Sequence[Obj], key: str = "name") -> Iterator[Cause]:
    """Check that no two items have the same `key`."""
    known_names = set()
    for n, item in enumerate(items):
        name = item.get(key)
        if name in known_names:
            yield Cause(f"{path}[{n}].{key}", f'Duplicate value: "{name}"', "FieldValueDuplicate")
        known_names.add(name)


def amount(path: str, value: int | str | None) -> Iterator[Cause]:
    """Check a number or a percentage, or an absent value."""
    if isinstance(value, str):
        if not PERCENT.fullmatch(value):
            yield wrong(path, value, "a valid percent string must be a number and '%'")
        elif int(value[:-1]) > 100:
            yield wrong(path, value, "must not be greater than 100%")
    else:
        yield from at_least(path, value, 0)


def selector(path: str, value: Obj | None) -> Iterator[Cause]:
    """Check a metav1.LabelSelector."""
    for n, term in enumerate((value or {}).get("matchExpressions") or ()):
        at = f"{path}.matchExpressions[{n}]"
        operator, values = term.get("operator"), term.get("values")
        if operator not in OPERATORS:
            yield wrong(f"{at}.operator", operator, "not a valid selector operator")
        elif operator in OPERATORS[:2] and not values:
            yield missing(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in OPERATORS[2:] and values:
            why = "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield Cause(f"{at}.values", why, "FieldValueForbidden")


def keys(path: str, data: Obj | None) -> Iterator[Cause]:
    """Check the keys of a ConfigMap or Secret."""
    for key in data or ():
        if not KEY.fullmatch(key) or key in (".", "..") or len(key) > 253:
            yield wrong(f"{path}[{key}]", key, "a valid config key consists of A-Z, 0-9, -, _ or .")
