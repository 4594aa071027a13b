"""YAML bodies: the values that JSON has."""

import pytest

from simulation.apiserver import yaml_text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1", {"a": 1}),
        ("at: 2026-01-01T00:00:00Z", {"at": "2026-01-01T00:00:00Z"}),
        ("2: x\ntrue: y", {"2": "x", "true": "y"}),
        ("a: [1, {b: null}]", {"a": [1, {"b": None}]}),
        ("a: 1\n---\nb: 2", {"a": 1}),
        ("", None),
    ],
)
def test_values_are_those_of_json(text: str, value: object) -> None:
    assert yaml_text.load(text, 100) == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" * 101 + "]" * 101, "inside one another"),
        ("a: &x [1]\nb: *x", "aliases"),
        ("a: [", "expected"),
        ("!!python/object:os.system x", "could not determine a constructor"),
    ],
)
def test_what_is_not_read_says_why(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        yaml_text.load(text, 100)
