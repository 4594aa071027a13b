"""Sets of fields: who owns which parts of an object, and in which parts two versions differ.

A path is a tuple of the path elements of `metadata.managedFields`: "f:name" for a field, `k:{...}`
for an item by its keys, `v:...` for an item of a set. A field with parts is in a set by its own
path only if it is owned itself.
Source: kubernetes-sigs/structured-merge-diff `typed/tofieldset.go`, `typed/compare.go`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from simulation.apiserver.errors import Obj
from simulation.apiserver.shape import ANY, Shape

Path = tuple[str, ...]
Paths = set[Path]
ROOT: Path = ()
SELF = "."
ABSENT = object()
LEAVES: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "bool": (bool,),
    "integer": (int,),
    "int": (int,),
    "int64": (int,),
    "number": (int, float),
    "quantity": (str, int, float),
    "int-or-string": (str, int),
    "string": (str,),
    "bytes": (str,),
    "time": (str,),
}


class Undeclared(ValueError):
    """A value that its schema does not allow; the message names the path."""


@dataclass(slots=True)
class Changes:
    """Fields that one version adds, modifies or removes compared with another."""

    added: Paths = field(default_factory=set)
    modified: Paths = field(default_factory=set)
    removed: Paths = field(default_factory=set)


def decode(fields: Obj) -> Paths:
    """Return the set of a `fieldsV1`."""
    return set(_decoded(fields, ROOT))


def _decoded(fields: Obj, path: Path) -> Iterator[Path]:
    for key, inner in fields.items():
        if key == SELF:
            yield path
        elif inner:
            yield from _decoded(inner, (*path, key))
        else:
            yield (*path, key)


def encode(paths: Paths) -> Obj:
    """Return the `fieldsV1` of a set."""
    tree: Obj = {}
    for path in sorted(paths):
        at = tree
        for key in path:
            at = at.setdefault(key, {})
        at[SELF] = {}
    return _without_lone_dots(tree)


def _without_lone_dots(tree: Obj) -> Obj:
    """Replace {".": {}} by {}, as a field without parts is written."""
    if tree.keys() == {SELF}:
        return {}
    return {key: _without_lone_dots(inner) if inner else {} for key, inner in tree.items()}


def show(path: Path) -> str:
    """Return a path as text: `.spec.list[name="a"].field`."""
    return "".join(_shown(word) for word in path)


def shallow_first(path: Path) -> tuple[tuple[bool, str], ...]:
    """Sort key by which a real server orders paths: parts of a field come after its siblings."""
    last = len(path) - 1
    return tuple((n < last, word) for n, word in enumerate(path))


def _shown(word: str) -> str:
    kind, _, rest = word.partition(":")
    if kind == "f":
        return f".{rest}"
    if kind == "v":
        return f"[={rest}]"
    keys = msgspec.json.decode(rest)
    return "[" + ",".join(f"{k}={_json(v)}" for k, v in keys.items()) + "]"


# ---- the items of lists


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def name_of(item: Any, shape: Shape, path: Path) -> str:
    """Return the path element of a list item. Raises Undeclared."""
    if not shape.keys:
        return f"v:{_json(item)}"
    part = shape.element or ANY
    keys = {}
    for key in sorted(shape.keys):
        declared = part.part(key)
        value = item.get(key) if isinstance(item, dict) else None
        value = value if value is not None or declared is None else declared.default
        if value is not None:
            keys[key] = value
    if not keys:
        raise Undeclared(
            f"{show(path)}: associative list with keys has an element that omits all key fields "
            f"{_json(list(shape.keys))} (and doesn't have default values for any key fields)"
        )
    return f"k:{_json(keys)}"


def items_of(items: Iterable[Any], shape: Shape, path: Path) -> dict[str, Any]:
    """Return the items by path element; the last one of duplicates. Raises Undeclared."""
    return {name_of(item, shape, path): item for item in items}


# ---- the fields of a value


def of(value: Any, shape: Shape, path: Path = ROOT) -> Paths:
    """Return the fields that an applied configuration owns. Raises Undeclared."""
    owned: Paths = set()
    _collect(value, shape, path, owned)
    return owned


def _collect(value: Any, shape: Shape, path: Path, owned: Paths) -> None:
    _check(value, shape, path)
    if value is None or shape.whole or not isinstance(value, dict | list):
        owned.add(path)
    elif isinstance(value, dict):
        for key, item in value.items():
            part = shape.part(key)
            at = (*path, f"f:{key}")
            if part is None:
                raise Undeclared(f"{show(at)}: field not declared in schema")
            _collect(item, part, at, owned)
            if item is None or item == {} or key not in shape.fields:
                owned.add(at)
    elif not shape.type:
        owned.add(path)  # a list of unknown type is owned as a whole
    else:
        known_names: set[str] = set()
        for item in value:
            name = name_of(item, shape, path)
            if name in known_names:
                shown = _shown(name).strip("[]=") if name.startswith("v:") else _shown(name)
                raise Undeclared(f"{show(path)}: duplicate entries for key {shown}")
            known_names.add(name)
            _collect(item, shape.element or ANY, (*path, name), owned)
            owned.add((*path, name))


def _check(value: Any, shape: Shape, path: Path) -> None:
    if value is None or not shape.type:
        return
    wanted = {"object": (dict,), "array": (list,)}.get(shape.type) or LEAVES.get(shape.type, (str,))
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        raise Undeclared(f"{show(path)}: expected {shape.type}, got {_json(value)}")


# ---- two versions


def compare(old: Obj, new: Obj, shape: Shape) -> Changes:
    """Return what differs in `new` from `old`."""
    changes = Changes()
    _compare(old, new, shape, ROOT, changes)
    return changes


def _compare(old: Any, new: Any, shape: Shape, path: Path, changes: Changes) -> None:
    if old is new or old == new:
        return
    if old is ABSENT:
        _whole_tree(new, shape, path, changes.added)
    elif new is ABSENT:
        _whole_tree(old, shape, path, changes.removed)
    elif not shape.whole and _are(dict, old, new):
        before, after = old or {}, new or {}
        for key in before.keys() | after.keys():
            part = shape.part(key) or ANY
            at = (*path, f"f:{key}")
            _compare(before.get(key, ABSENT), after.get(key, ABSENT), part, at, changes)
    elif _by_items(shape) and _are(list, old, new):
        before, after = items_of(old or (), shape, path), items_of(new or (), shape, path)
        for name in before.keys() | after.keys():
            part = shape.element or ANY
            at = (*path, name)
            _compare(before.get(name, ABSENT), after.get(name, ABSENT), part, at, changes)
    else:
        changes.modified.add(path)


def _are(kind: type, *values: Any) -> bool:
    """Return whether all values have the type; null counts as an empty one."""
    return all(value is None or isinstance(value, kind) for value in values)


def _by_items(shape: Shape) -> bool:
    return bool(shape.type) and not shape.whole


def _whole_tree(value: Any, shape: Shape, path: Path, owned: Paths) -> None:
    owned.add(path)
    if isinstance(value, dict) and not shape.whole:
        for key, item in value.items():
            _whole_tree(item, shape.part(key) or ANY, (*path, f"f:{key}"), owned)
    elif isinstance(value, list) and _by_items(shape):
        for name, item in items_of(value, shape, path).items():
            _whole_tree(item, shape.element or ANY, (*path, name), owned)
