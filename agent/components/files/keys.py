"""The keys of ours in a file that others write too; pure.

Ours are the keys of the content that the component writes, down to plain values and lists, which
are ours as a whole. Every other key stays as it is, and every line that need not change. An edit is
read back and compared with what was meant: where a format cannot do it, nothing is written.
"""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from agent.components.files.formats import BY_SUFFIX, Format, Path
from agent.host import Contraindicated


def merged(path: str, current: str, ours: str, before: str = "") -> str:
    """The file `current` with our keys, and without those that only `before` had.

    It is `current` itself if there is nothing to do. Raises Contraindicated.
    """
    form = _format(path)
    wanted = _read(form, f"the content for {path}", ours)
    old = _read(form, f"the earlier content for {path}", before)
    return _edited(path, current, dict(_leaves(wanted)), dict(_leaves(old)))


def given_back(path: str, current: str, ours: str, before: str) -> str:
    """The file with the values that our keys had in `before`, and without those that it had not.

    It is `before` itself if nobody else has changed the file since. Raises Contraindicated.
    """
    if merged(path, before, ours) == current:
        return before
    form = _format(path)
    read = _read(form, f"what was in {path} before", before)
    leaves = dict(_leaves(_read(form, f"the content for {path}", ours)))
    earlier = {way: old for way in leaves if (old := _at(read, way)) is not _NOTHING}
    return _edited(path, current, earlier, leaves)


def _edited(path: str, current: str, set_: Mapping[Path, Any], dropped: Mapping[Path, Any]) -> str:
    """`current` with the leaves `set_`, and without those of `dropped` that are not among them."""
    form = _format(path)
    text, meant = current, _read(form, path, current)
    for way in dropped:
        if way not in set_ and _at(meant, way) is not _NOTHING:
            text, meant = form.drop(text, way), _without(meant, way)
    for way, value in set_.items():
        if not _same(_at(meant, way), value):
            text, meant = form.set(text, way, value), _with(meant, way, value)
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
    """The file without our keys; "" if it had no others. Raises Contraindicated."""
    left = merged(path, current, "", ours)
    return left if _pruned(_read(_format(path), path, left)) else ""


def ways(path: str, ours: str) -> tuple[Path, ...]:
    """The keys that this content of ours has. Raises Contraindicated."""
    read = _read(_format(path), f"the content for {path}", ours)
    return tuple(way for way, _ in _leaves(read))


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


def _leaves(read: Mapping[str, Any], way: Path = ()) -> Iterator[tuple[Path, Any]]:
    for key, value in read.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*way, key))
        else:
            yield (*way, key), value


def _at(read: Any, way: Path) -> Any:
    for key in way:
        if not isinstance(read, dict) or key not in read:
            return _NOTHING
        read = read[key]
    return read


def _with(read: Mapping[str, Any], way: Path, value: Any) -> dict[str, Any]:
    if len(way) == 1:
        return {**read, way[0]: value}
    inner = read.get(way[0])
    return {**read, way[0]: _with(inner if isinstance(inner, dict) else {}, way[1:], value)}


def _without(read: Mapping[str, Any], way: Path) -> dict[str, Any]:
    rest = {key: value for key, value in read.items() if key != way[0]}
    if len(way) > 1 and (inner := _without(read[way[0]], way[1:])):
        return {**read, way[0]: inner}
    return rest


def _pruned(read: dict[str, Any]) -> dict[str, Any]:
    """Without empty tables: whether a head without keys stays makes no difference."""
    inner = {k: _pruned(v) if isinstance(v, dict) else v for k, v in read.items()}
    return {key: value for key, value in inner.items() if value != {}}


def _same(one: Any, other: Any) -> bool:
    """Also of the same type: `1`, `1.0` and `true` are equal in Python and not in a file."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(_same(a, b) for a, b in pairs)
    return type(one) is type(other) and (one == other or (one != one and other != other))
