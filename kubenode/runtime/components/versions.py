"""Comparison of versions of components, kernels and API servers.

Within one part of a version the order is that of dpkg, which suits package managers, kernels and
semantic versioning: numbers compare as numbers, `~` sorts before everything, an epoch before a
colon decides first. A pre-release after a hyphen (`-rc.1`) sorts before its release. A leading `v`
is ignored.
"""

import re
from enum import StrEnum

_PRE_RELEASE = re.compile(r"-(?=(alpha|beta|rc|pre|dev)([.0-9-]|$))")
_PIECE = re.compile(r"([^0-9]*)([0-9]*)")
_NUMBERS = re.compile(r"(?:([0-9]+):)?([0-9]+)(?:\.([0-9]+))?")
_CLAUSE = re.compile(r"(>=|<=|>|<|=)(.+)")


class VersionStep(StrEnum):
    """The step from one version to another."""

    NONE = "none"
    INSTALL = "install"
    MAJOR = "major"
    MINOR = "minor"
    PATCH = "patch"
    UNINSTALL = "uninstall"


def compare(a: str, b: str) -> int:
    """Return a negative number if `a` is older than `b`, 0 if they are the same version."""
    (epoch_a, rest_a), (epoch_b, rest_b) = _split(a), _split(b)
    return (epoch_a > epoch_b) - (epoch_a < epoch_b) or _compare(rest_a, rest_b)


def satisfies(version: str, constraint: str) -> bool:
    """Return whether `version` meets all clauses, such as `>=5.10,<6.9`; every one meets "".

    Raises ValueError for a malformed constraint.
    """
    return all(_holds(version, clause) for clause in constraint.split(",") if constraint)


def step_of(old: str, new: str) -> VersionStep:
    """Return the step between two versions, up or down. "" means not installed.

    Versions without numbers differ by a MAJOR step.
    """
    if not old or not new:
        if old == new:
            return VersionStep.NONE
        return VersionStep.INSTALL if new else VersionStep.UNINSTALL
    if compare(old, new) == 0:
        return VersionStep.NONE
    before, after = _NUMBERS.match(_plain(old)), _NUMBERS.match(_plain(new))
    if before is None or after is None:
        return VersionStep.MAJOR
    epochs = [int(m.group(1) or 0) for m in (before, after)]
    majors = [int(m.group(2)) for m in (before, after)]
    minors = [int(m.group(3) or 0) for m in (before, after)]
    if epochs[0] != epochs[1] or majors[0] != majors[1]:
        return VersionStep.MAJOR
    return VersionStep.MINOR if minors[0] != minors[1] else VersionStep.PATCH


def _holds(version: str, clause: str) -> bool:
    clause_match = _CLAUSE.fullmatch(clause.strip())
    if clause_match is None:
        raise ValueError(f"{clause!r} is no constraint: write it like >=1.7 or >=5.10,<6.9")
    order = compare(version, clause_match.group(2))
    match clause_match.group(1):
        case ">=":
            return order >= 0
        case "<=":
            return order <= 0
        case ">":
            return order > 0
        case "<":
            return order < 0
        case _:
            return order == 0


def _plain(version: str) -> str:
    return version[1:] if re.match("v[0-9]", version) else version


def _split(version: str) -> tuple[int, str]:
    """Return the epoch and the rest, with pre-releases as dpkg writes them."""
    epoch, colon, rest = _plain(version).partition(":")
    if not colon or not epoch.isdecimal():
        epoch, rest = "0", _plain(version)
    return int(epoch), _PRE_RELEASE.sub("~", rest)


def _compare(a: str, b: str) -> int:
    while a or b:
        pieces = [_PIECE.match(text) for text in (a, b)]
        (letters_a, number_a), (letters_b, number_b) = (
            m.groups() if m else ("", "") for m in pieces
        )
        if order := _compare_letters(letters_a, letters_b):
            return order
        if order := int(number_a or 0) - int(number_b or 0):
            return order
        a, b = a[len(letters_a) + len(number_a) :], b[len(letters_b) + len(number_b) :]
    return 0


def _compare_letters(a: str, b: str) -> int:
    """Compare as dpkg: letters before other characters, the end before both, `~` before the end."""
    for place in range(max(len(a), len(b))):
        order = _weight(a[place : place + 1]) - _weight(b[place : place + 1])
        if order:
            return order
    return 0


def _weight(sign: str) -> int:
    if not sign:
        return 0
    if sign == "~":
        return -1
    return ord(sign) if sign.isalpha() else ord(sign) + 0x110000
