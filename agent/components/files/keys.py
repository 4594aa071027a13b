"""Edits the component's keys in a file that others write too. Pure.

The keys of the component's content belong to the component, down to plain values and lists, which
belong to it as a whole. All other keys, and all lines that need not change, stay as they are. An
edit is read back and compared with what was meant. If a format cannot express the edit, nothing is
written.
"""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from agent.components.files.formats import BY_SUFFIX, Format, Path
from agent.host import Contraindicated


def merged(path: str, current: str, ours: str, before: str = "") -> str:
    """Return `current` with the component's keys, and without keys that only `before` had.

    Returns `current` itself if nothing changes. Raises Contraindicated.
    """
    form = _format(path)
    wanted = _read(form, f"the content for {path}", ours)
    old = _read(form, f"the earlier content for {path}", before)
    return _edited(path, current, dict(_leaves(wanted)), dict(_leaves(old)))


def given_back(path: str, current: str, ours: str, before: str) -> str:
    """Return the file with the values that the component's keys had in `before`, without keys it
    did not have.

    Returns `before` itself if the file was not changed since. Raises Contraindicated.
    """
    if merged(path, before, ours) == current:
        return before
    form = _format(path)
    read = _read(form, f"what was in {path} before", before)
    leaves = dict(_leaves(_read(form, f"the content for {path}", ours)))
    earlier = {key_path: old for key_path in leaves if (old := _at(read, key_path)) is not _NOTHING}
    return _edited(path, current, earlier, leaves)


def _edited(path: str, current: str, set_: Mapping[Path, Any], dropped: Mapping[Path, Any]) -> str:
    """Return `current` with the leaves `set_`, and without other leaves of `dropped`."""
    form = _format(path)
    text, meant = current, _read(form, path, current)
    for key_path in dropped:
        if key_path not in set_ and _at(meant, key_path) is not _NOTHING:
            text, meant = form.drop(text, key_path), _without(meant, key_path)
    for key_path, value in set_.items():
        if not _same(_at(meant, key_path), value):
            text, meant = form.set(text, key_path, value), _with(meant, key_path, value)
    try:
        done = _same(_pruned(form.parse(text)), _pruned(meant))
    except ValueError:
        done = False
    if not done:
        raise Contraindicated(
            f"{path}: its keys cannot be changed without changing others, as they are written"
            " there; write them as plain keys of a table, or use ownership Whole"
        )
    return text


def without(path: str, current: str, ours: str) -> str:
    """Return the file without the component's keys; "" if it has no others. Raises
    Contraindicated.
    """
    remaining = merged(path, current, "", ours)
    return remaining if _pruned(_read(_format(path), path, remaining)) else ""


def list_key_paths(path: str, ours: str) -> tuple[Path, ...]:
    """Return the paths of the keys in the component's content. Raises Contraindicated."""
    read = _read(_format(path), f"the content for {path}", ours)
    return tuple(key_path for key_path, _ in _leaves(read))


def _format(path: str) -> Format:
    suffix = PurePosixPath(path).suffix
    if suffix in BY_SUFFIX:
        return BY_SUFFIX[suffix]
    raise Contraindicated(
        f"{path}: ownership Keys is for files that end in {', '.join(sorted(BY_SUFFIX))}; write"
        " ownership Whole, or a file of its own that the program reads too"
    )


def _read(form: Format, what: str, text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        return form.parse(text)
    except (ValueError, RecursionError) as error:
        raise Contraindicated(
            f"{what} cannot be read ({error}); mend it, or use ownership Whole"
        ) from error


class _Nothing:
    pass


_NOTHING = _Nothing()


def _leaves(read: Mapping[str, Any], key_path: Path = ()) -> Iterator[tuple[Path, Any]]:
    for key, value in read.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*key_path, key))
        else:
            yield (*key_path, key), value


def _at(read: Any, key_path: Path) -> Any:
    for key in key_path:
        if not isinstance(read, dict) or key not in read:
            return _NOTHING
        read = read[key]
    return read


def _with(read: Mapping[str, Any], key_path: Path, value: Any) -> dict[str, Any]:
    if len(key_path) == 1:
        return {**read, key_path[0]: value}
    inner = read.get(key_path[0])
    return {
        **read,
        key_path[0]: _with(inner if isinstance(inner, dict) else {}, key_path[1:], value),
    }


def _without(read: Mapping[str, Any], key_path: Path) -> dict[str, Any]:
    rest = {key: value for key, value in read.items() if key != key_path[0]}
    if len(key_path) > 1 and (inner := _without(read[key_path[0]], key_path[1:])):
        return {**read, key_path[0]: inner}
    return rest


def _pruned(read: dict[str, Any]) -> dict[str, Any]:
    """Remove empty tables: a header without keys makes no difference."""
    inner = {k: _pruned(v) if isinstance(v, dict) else v for k, v in read.items()}
    return {key: value for key, value in inner.items() if value != {}}


def _same(first: Any, other: Any) -> bool:
    """Compare values and types: `1`, `1.0` and `true` are equal in Python, but not in a file."""
    if isinstance(first, dict) and isinstance(other, dict):
        return first.keys() == other.keys() and all(_same(first[key], other[key]) for key in first)
    if isinstance(first, list) and isinstance(other, list):
        pairs = zip(first, other, strict=False)
        return len(first) == len(other) and all(_same(a, b) for a, b in pairs)
    return type(first) is type(other) and (first == other or (first != first and other != other))
