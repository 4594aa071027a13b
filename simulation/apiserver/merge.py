"""Server-side apply on values: merges a configuration into an object, and removes fields.

Source: kubernetes-sigs/structured-merge-diff `typed/merge.go`, `typed/remove.go` and
`merge/update.go`.
"""

from collections.abc import Iterable
from typing import Any

from simulation.apiserver.fields import Path, Paths, items_of
from simulation.apiserver.shape import ANY, Shape


def merge(live: Any, config: Any, shape: Shape, path: Path = ()) -> Any:
    """Merge `config` into `live`: maps and lists that are owned by their parts are joined."""
    if shape.whole:
        return config
    if isinstance(live, dict) and isinstance(config, dict):
        result = dict(live)
        for key, item in config.items():
            part = shape.part(key) or ANY
            result[key] = merge(live.get(key), item, part, (*path, f"f:{key}"))
        return result
    if isinstance(live, list) and isinstance(config, list) and shape.type:
        return _merge_lists(live, config, shape, path)
    return config


def _merge_lists(live: list[Any], config: list[Any], shape: Shape, path: Path) -> list[Any]:
    """Merge lists in the order of the configuration; items of `live` alone keep their places."""
    ours, theirs = items_of(live, shape, path), items_of(config, shape, path)
    live_names, right = list(ours), list(theirs)
    shared = [name for name in right if name in ours]
    merged: list[Any] = []
    while live_names or right:
        if live_names and live_names[0] not in theirs:
            merged.append(ours[live_names.pop(0)])
            continue
        if (
            live_names
            and right
            and live_names[0] != right[0]
            and shared
            and live_names[0] != shared[0]
        ):
            live_names.pop(0)  # added where the configuration has it
            continue
        if right:
            name = right.pop(0)
            if shared and shared[0] == name:
                shared.pop(0)
            if live_names and live_names[0] == name:
                live_names.pop(0)
            part = shape.element or ANY
            merged.append(merge(ours.get(name), theirs[name], part, (*path, name)))
        else:
            live_names.pop(0)
    return merged


def without(value: Any, gone: Paths, shape: Shape) -> Any:
    """Return `value` without the fields and items in `gone`; null for a value that gets empty."""
    touched = {path[:n] for path in gone for n in range(len(path) + 1)}
    return _without(value, gone, touched, shape, ())


def _without(value: Any, gone: Paths, touched: Paths, shape: Shape, path: Path) -> Any:
    if isinstance(value, dict):
        result = {}
        for key, item in value.items():
            at = (*path, f"f:{key}")
            if at in gone:
                continue
            if at in touched:
                item = _without(item, gone, touched, shape.part(key) or ANY, at)
            result[key] = item
        return result or None
    if isinstance(value, list) and shape.type and not shape.whole:
        remaining = []
        for name, item in items_of(value, shape, path).items():
            at = (*path, name)
            if at not in gone:
                part = shape.element or ANY
                remaining.append(_without(item, gone, touched, part, at) if at in touched else item)
        return remaining or None
    return value


def with_parents(paths: Iterable[Path], shape: Shape) -> Paths:
    """Return `paths` with the declared fields above them: the owner of a part keeps its parents."""
    closure: Paths = set()
    for path in paths:
        closure.add(path)
        at: Shape | None = shape
        for n, word in enumerate(path):
            at = at or ANY
            if word.startswith("f:"):
                name = word[2:]
                if name in at.fields:
                    closure.add(path[: n + 1])
                at = at.part(name)
            else:
                at = at.element
    return closure
