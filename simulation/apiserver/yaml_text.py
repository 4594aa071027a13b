"""YAML as a real server reads it: the values are those of JSON, and times are strings."""

import json
from typing import Any, ClassVar

import yaml  # type: ignore[import-untyped]

_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
TIMESTAMP = "tag:yaml.org,2002:timestamp"


class _Loader(_BASE):  # type: ignore[misc]  # of a module without types
    """Reads times as strings, since JSON has no type for them."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {
        first: [(tag, pattern) for tag, pattern in known if tag != TIMESTAMP]
        for first, known in _BASE.yaml_implicit_resolvers.items()
    }


def load(text: str, deepest: int) -> Any:
    """Return the first document.

    Raises ValueError for invalid YAML, for more nesting than `deepest`, and for aliases.
    """
    depth = 0
    try:
        for event in yaml.parse(text, Loader=_BASE):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            elif isinstance(event, yaml.AliasEvent):
                raise ValueError("aliases are not read: write the part out")
            if depth > deepest:
                raise ValueError(f"more than {deepest} lists and maps inside one another")
        return _named(next(yaml.load_all(text, Loader=_Loader), None))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _named(value: Any) -> Any:
    """Convert keys to strings, as in JSON: `1: x` is the field "1"."""
    if isinstance(value, dict):
        return {
            key if isinstance(key, str) else json.dumps(key): _named(item)
            for key, item in value.items()
        }
    return [_named(item) for item in value] if isinstance(value, list) else value
