"""Reads YAML 1.2 as plain data with libyaml, some thirty times faster than ruamel.yaml.

Values are the same as those of ruamel.yaml (`off` is a text, `010` is ten). A text that ruamel.yaml
would refuse, or that libyaml might read in another way, raises an error. The caller then uses
ruamel.yaml, whose messages name the place.
"""

import re
from functools import lru_cache
from typing import Any, ClassVar

import yaml  # type: ignore[import-untyped]

BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
RESOLVED = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?0b[0-1_]+|[-+]?0o?[0-7_]+|[-+]?[0-9_]+|[-+]?0x[0-9a-fA-F_]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*(?:[eE][-+]?[0-9]+)"
        r"|[-+]?\.[0-9_]+(?:[eE][-+][0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+0123456789.",
    ),
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("merge", r"<<", "<"),
    ("timestamp", r"[0-9]{4}-[0-9].*", "0123456789"),
    ("value", r"=", "="),
)
STRANGE = re.compile(r"[-+]?0[0-9_]|.*_")
"""Numbers that YAML 1.1 and YAML 1.2 read differently."""
RARE = re.compile(r"(^|[\s\[{,])!|^\.\.\.", re.MULTILINE)
"""Tags, and ends of documents."""


TEXT = "tag:yaml.org,2002:str"
REMEMBERED = 4096
"""Plain scalars whose tags are cached: files of rules repeat the same words."""
DEEPEST = 200
"""Depth of nested lists and maps. Both readers recurse, and libyaml would crash the process."""


class TooDeep(Exception):
    """The text nests deeper than DEEPEST, and no reader may read it."""


class Otherwise(Exception):
    """ruamel.yaml must read the text: it is invalid, or libyaml might read it differently."""


class _PlainLoader(BASE):  # type: ignore[misc]  # of a module without types
    """Loads YAML 1.2, and refuses a key that is in a map twice."""

    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        if kind is yaml.ScalarNode:
            return _resolve_plain(value) if implicit[0] else TEXT
        return super().resolve(kind, value, implicit)

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        # Nine of ten values are texts, which need no constructor.
        return node.value if node.tag == TEXT else super().construct_object(node, deep)


@lru_cache(REMEMBERED)
def _resolve_plain(value: str) -> str:
    """Return the tag of a scalar without quotes."""
    for tag, pattern in _PlainLoader.yaml_implicit_resolvers.get(value[:1], ()):
        if pattern.match(value):
            return tag
    return TEXT


def _construct_map(loader: Any, node: Any) -> Any:
    data: dict[Any, Any] = {}
    yield data
    for key, value in node.value:
        if key.tag.endswith(":merge"):
            raise Otherwise("merge keys")
        name = loader.construct_object(key, deep=True)
        if name in data:
            raise Otherwise(f"duplicate key {name!r}")
        data[name] = loader.construct_object(value)


def _construct_number(loader: Any, node: Any) -> Any:
    if STRANGE.match(node.value):
        raise Otherwise(node.value)
    if node.tag.endswith(":int"):
        return int(node.value, 0)
    return yaml.SafeLoader.construct_yaml_float(loader, node)


def _doubtful(loader: Any, node: Any) -> Any:
    raise Otherwise(node.value)


for _name, _pattern, _first in RESOLVED:
    _PlainLoader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_name}", re.compile(f"(?:{_pattern})$"), list(_first.replace("\0", ""))
    )
_PlainLoader.yaml_implicit_resolvers.setdefault("", []).append(
    ("tag:yaml.org,2002:null", re.compile(r"$"))
)
_PlainLoader.add_constructor("tag:yaml.org,2002:map", _construct_map)
_PlainLoader.add_constructor("tag:yaml.org,2002:int", _construct_number)
_PlainLoader.add_constructor("tag:yaml.org,2002:float", _construct_number)
for _name in ("timestamp", "value"):
    _PlainLoader.add_constructor(f"tag:yaml.org,2002:{_name}", _doubtful)


def load_all(text: str) -> list[Any]:
    """Return every document of the text. Raises Otherwise or TooDeep."""
    if _suspicious(text) and _depth(text) > DEEPEST:
        raise TooDeep
    if RARE.search(text):
        raise Otherwise("tags, or ends of documents")
    try:
        return list(yaml.load_all(text, Loader=_PlainLoader))
    except (yaml.YAMLError, TypeError, ValueError, RecursionError) as error:
        raise Otherwise(str(error)) from error


def _suspicious(text: str) -> bool:
    """Return whether the text may nest deep: by brackets, dashes in one line, or indentation."""
    opened = text.count("[") + text.count("{")
    return opened > DEEPEST or any(
        line.count("- ") + line.count("? ") + line.count("\t") > DEEPEST
        or len(line) - len(line.lstrip()) > DEEPEST
        for line in text.splitlines()
    )


def _depth(text: str) -> int:
    """Return the depth of the text, counted by parser events without recursion.

    Raises Otherwise.
    """
    depth = deepest = 0
    try:
        for event in yaml.parse(text, Loader=BASE):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                deepest = max(deepest, depth)
                if deepest > DEEPEST:
                    break
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
    except yaml.YAMLError as error:
        raise Otherwise(str(error)) from error
    return deepest
