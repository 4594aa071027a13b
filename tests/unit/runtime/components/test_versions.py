"""Versions: dpkg's order, constraints, and how big a step is."""

import subprocess
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubenode.runtime.components.versions import VersionStep, compare, satisfies, step_of

RISING = [
    *("1.0~rc1", "1.0", "1.0+b1", "1.0.1", "1.2", "1.9", "1.10", "2.1.4-1", "2.1.4-2"),
    *("2.1.5", "10.0", "1:0.5"),
]
versions = st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,2}){0,3}([+~-][a-z0-9.]{1,5})?", fullmatch=True)


@pytest.mark.parametrize(("older", "newer"), list(pairwise(RISING)))
def test_newer_is_newer(older: str, newer: str) -> None:
    assert compare(older, newer) < 0 < compare(newer, older)


@pytest.mark.parametrize("release", ["1.34.0", "v2.0"])
@pytest.mark.parametrize("suffix", ["-rc.1", "-alpha.0", "-beta2", "-dev"])
def test_a_pre_release_comes_before_its_release(release: str, suffix: str) -> None:
    assert compare(release + suffix, release) < 0


def test_a_leading_v_says_nothing() -> None:
    assert compare("v1.32.1", "1.32.1") == 0


@given(versions, versions, versions)
def test_it_is_an_order(a: str, b: str, c: str) -> None:
    assert compare(a, a) == 0
    assert (compare(a, b) > 0) == (compare(b, a) < 0)
    if compare(a, b) <= 0 and compare(b, c) <= 0:
        assert compare(a, c) <= 0


@settings(max_examples=12, deadline=None)
@given(versions, versions)
def test_it_is_dpkgs_order(a: str, b: str) -> None:
    if "-" in a or "-" in b:  # pre-releases are ours, and so is a hyphen
        return
    said = subprocess.run(["dpkg", "--compare-versions", a, "lt", b], check=False)
    assert (compare(a, b) < 0) == (said.returncode == 0)


@pytest.mark.parametrize(
    ("version", "constraint", "holds"),
    [
        *(("2.1.4", "", True), ("2.1.4", ">=2.1.4", True), ("2.1.4", ">2.1.4", False)),
        *(("6.1.0-18-amd64", ">=5.10,<6.9", True), ("6.10.1", ">=5.10,<6.9", False)),
        *(("1.10", ">=1.9", True), ("v1.31.4", ">=1.32", False), ("3.0", "=3.0", True)),
    ],
)
def test_constraints(version: str, constraint: str, holds: bool) -> None:
    assert satisfies(version, constraint) is holds


def test_a_constraint_that_is_none_names_itself() -> None:
    with pytest.raises(ValueError, match="is no constraint"):
        satisfies("1.2", "~1.2")


@pytest.mark.parametrize(
    ("old", "new", "step"),
    [
        *(
            ("", "", VersionStep.NONE),
            ("", "1.0", VersionStep.INSTALL),
            ("1.0", "", VersionStep.UNINSTALL),
        ),
        *(
            ("1.0", "1.0", VersionStep.NONE),
            ("1.2.3", "1.2.4", VersionStep.PATCH),
            ("1.2.3-1", "1.2.3-2", "patch"),
        ),
        *(
            ("1.2.9", "1.3.0", VersionStep.MINOR),
            ("1.3.0", "1.2.9", VersionStep.MINOR),
            ("1.9", "2.0", "major"),
        ),
        *(("1.0", "1:1.0", VersionStep.MAJOR), ("nightly-4", "nightly-5", VersionStep.MAJOR)),
        *(("v1.34.1", "v1.34.2", VersionStep.PATCH), ("1", "1.1", VersionStep.MINOR)),
    ],
)
def test_f38_steps(old: str, new: str, step: str) -> None:
    assert step_of(old, new) == step
