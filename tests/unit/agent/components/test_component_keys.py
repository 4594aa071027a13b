"""Keys of ours in files that others write too."""

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.components.files.keys import merged, without
from agent.host import Contraindicated

TOML = """# of the host
version = 2

[plugins] # theirs
  # the image
  [plugins."io.containerd.cri"]
    sandbox = "old" # gone with the value
    list = [
      1,
      2,
    ]
    other = 3
"""
KEYS = st.text("abcXYZ_-.: é", min_size=1, max_size=6)
LEAVES = (
    st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    | st.lists(st.integers(0, 9), max_size=3)
)
TREES = st.recursive(
    st.dictionaries(KEYS, LEAVES, min_size=1, max_size=4),
    lambda inner: st.dictionaries(KEYS, inner | LEAVES, min_size=1, max_size=4),
    max_leaves=8,
)


def test_toml_keeps_foreign_keys_comments_and_lines() -> None:
    ours = '[plugins."io.containerd.cri"]\nsandbox = "new"\nlist = [3]\n[debug]\nlevel = "info"\n'
    made = merged("/etc/c.toml", TOML, ours)
    kept = [
        line for line in TOML.splitlines() if line.strip().startswith(("#", "other", "version"))
    ]
    assert [line for line in made.splitlines() if line in kept] == kept
    read = tomllib.loads(made)
    assert read["plugins"]["io.containerd.cri"] == {"sandbox": "new", "list": [3], "other": 3}
    assert read["debug"] == {"level": "info"}
    assert merged("/etc/c.toml", made, ours) == made, "what is there is not written again"


def test_a_key_that_is_ours_no_more_goes_and_foreign_ones_stay() -> None:
    before, now = "[a]\nx = 1\ny = 2\n", "[a]\nx = 1\n"
    made = merged("/etc/c.toml", "[a]\nx = 1\ny = 2\nz = 3\n", now, before)
    assert tomllib.loads(made) == {"a": {"x": 1, "z": 3}}
    assert without("/etc/c.toml", made, now) == "[a]\nz = 3\n"
    assert without("/etc/c.toml", "[a]\nx = 1\n", now) == ""


def test_ini_keeps_comments_indentation_and_sections() -> None:
    there = "# c\ntop=1\n[User]\n\tname = x\n\temail = y\n; last\n[Bare]\nskip-networking\n"
    made = merged("/etc/c.ini", there, "top = 2\n[User]\nemail = z\n[New]\na = b=c\n")
    assert made == (
        "# c\ntop = 2\n[User]\n\tname = x\n\temail = z\n; last\n[Bare]\nskip-networking\n\n"
        "[New]\na = b=c\n"
    )


def test_a_value_over_several_lines_is_replaced_as_a_whole() -> None:
    there = "[S]\nExec = a \\\n  b\nList = 1\n  2\n  3\nExec = again\n"
    assert merged("/etc/c.conf", there, "[S]\nExec = c\nList = 4\n") == "[S]\nExec = c\nList = 4\n"


def test_json_keeps_order_and_indentation() -> None:
    made = merged("/etc/c.json", '{\n    "z": 1,\n    "a": {"b": 2}\n}\n', '{"a": {"c": [1]}}')
    assert list(json.loads(made)) == ["z", "a"]
    assert '\n    "a"' in made and json.loads(made)["a"] == {"b": 2, "c": [1]}


@pytest.mark.parametrize(
    ("path", "there", "ours", "told"),
    [
        ("/etc/k.yaml", "a: 1\n", "a: 2\n", "ends? in .*json"),
        ("/etc/c.toml", "[[a]]\nx = 1\n", "[a]\nx = 2\n", "ownership Whole"),
        ("/etc/c.toml", "a = {x = 1}\n", "[a]\nx = 2\n", "ownership Whole"),
        ("/etc/c.toml", "a = \n", "b = 1\n", "cannot be read"),
        ("/etc/c.json", '{"a": 1, "a": 2}', '{"b": 1}', "twice"),
        ("/etc/c.json", "[1]", '{"b": 1}', "no object"),
        ("/etc/nginx.conf", "server {\n}\n", "a = 1\n", "line 1"),
    ],
)
def test_what_cannot_be_done_safely_is_refused_with_the_remedy(
    path: str, there: str, ours: str, told: str
) -> None:
    with pytest.raises(Contraindicated, match=told):
        merged(path, there, ours)


def test_numbers_booleans_and_floats_are_not_taken_for_each_other() -> None:
    for value in ("true", "1.0"):
        assert tomllib.loads(merged("/etc/c.toml", "a = 1\n", f"a = {value}\n")) != {"a": 1} or (
            merged("/etc/c.toml", "a = 1\n", f"a = {value}\n") != "a = 1\n"
        )


@settings(max_examples=60, deadline=None)
@given(foreign=TREES, ours=TREES)
@pytest.mark.exhaustive
def test_merged_json_has_ours_and_every_foreign_key(
    foreign: dict[str, Any], ours: dict[str, Any]
) -> None:
    read = json.loads(merged("/c.json", json.dumps(foreign), json.dumps(ours)))
    assert _has(read, ours) and _has_foreign(read, foreign, ours)


@settings(max_examples=60, deadline=None)
@given(foreign=TREES, ours=TREES)
@pytest.mark.exhaustive
def test_merged_toml_has_ours_and_every_foreign_key_or_is_refused(
    foreign: dict[str, Any], ours: dict[str, Any]
) -> None:
    there = merged("/c.toml", "", _toml(foreign))
    try:
        read = tomllib.loads(merged("/c.toml", there, _toml(ours)))
    except Contraindicated:
        return
    assert _has(read, ours) and _has_foreign(read, foreign, ours)


def _toml(tree: dict[str, Any], way: tuple[str, ...] = ()) -> str:
    own = [f"{json.dumps(k)} = {_plain(v)}" for k, v in tree.items() if not isinstance(v, dict)]
    head = [f"[{'.'.join(json.dumps(part) for part in way)}]"] if way else []
    inner = [_toml(v, (*way, k)) for k, v in tree.items() if isinstance(v, dict)]
    return "\n".join([*head, *own, *inner])


def _plain(value: Any) -> str:
    text = json.dumps(value).replace("\x7f", "\\u007f")
    if isinstance(value, str):  # TOML has no surrogate pairs
        text = "".join(f"\\U{ord(c):08X}" if not c.isalnum() else c for c in value)
        text = f'"{text}"'
    return {"Infinity": "inf", "-Infinity": "-inf"}.get(text, text)


def _has(read: Any, ours: dict[str, Any]) -> bool:
    return all(_has(read[k], v) if isinstance(v, dict) else read[k] == v for k, v in ours.items())


def _has_foreign(read: Any, foreign: dict[str, Any], ours: Any) -> bool:
    """Each foreign key is there, unless one of ours has its place."""
    for key, value in foreign.items():
        mine = ours.get(key) if isinstance(ours, dict) else None
        if mine is not None and not (isinstance(mine, dict) and isinstance(value, dict)):
            continue
        if isinstance(value, dict):
            if not _has_foreign(read[key], value, mine or {}):
                return False
        elif read[key] != value:
            return False
    return True
