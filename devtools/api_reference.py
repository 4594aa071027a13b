"""docs/reference/api.md: every field of every kind, written from the models.

python -m devtools.api_reference            write it
python -m devtools.api_reference --check    exit 1 when it differs
"""

import sys
from collections.abc import Iterator
from typing import Any

from pydantic.fields import FieldInfo

from devtools.generators import ROOT, run
from kubenode.api.base import API_VERSION, Model, Resource
from kubenode.api.duration import PATTERN as DURATION
from kubenode.api.structural import models_of, plain, reference, to_wire, without_null
from kubenode.api.v1alpha1 import KINDS
from kubenode.api.v1alpha1.leaves import DEPTH, WIDTH

FILE = ROOT / "docs" / "reference" / "api.md"
SHARED = 2
"""A part that this many kinds use is described once, at the end."""
Schema = dict[str, Any]

HEAD = f"""<!-- Written by `make docs` from kubenode/api; change the models, not this file. -->
# API reference

Group and version `{API_VERSION}`. Kinds are cluster-scoped unless they say that they are
namespaced; `kubectl get kubenode` lists them all. Unknown fields are refused.

- **duration**: a text such as `90s`, `10m` or `1h30m`, of hours, minutes, seconds and `ms`; at most
  ten years.
- **share**: a whole number of nodes such as `3`, or a percentage of them such as `"5%"`.
- **instant**: RFC 3339, such as `2026-11-21T01:59:09Z`.
- **expression**: one of `all`, `any`, `not` or one leaf; at most {DEPTH} of `all`, `any` and `not`
  inside one another, at most {WIDTH} members in a list.

Fields without a default may be left out unless they are **required**. What a model alone can check
(that a regular expression is RE2, that a time zone is known, that a duration is below ten years,
limits of texts deep inside an expression) is refused by `kubenode rules lint` and by the operator,
which then says so in the object's status; all else the API server refuses itself.
"""


def page() -> str:
    """Return the whole page as Markdown."""
    uses: dict[type[Model], list[type[Resource]]] = {}
    for kind in KINDS:
        for model in _in_order(kind):
            uses.setdefault(model, []).append(kind)
    shared = [model for model, kinds in uses.items() if len(kinds) >= SHARED]
    parts = [HEAD, _contents(shared)]
    for kind in KINDS:
        own = [m for m in _in_order(kind) if m not in shared and m is not kind]
        parts += [_kind(kind), *(_section(model, kind) for model in own)]
    parts.append("\n## Shared parts\n")
    parts += [_section(model, uses[model][0]) for model in shared]
    return "\n".join(parts)


def _in_order(kind: type[Resource]) -> Iterator[type[Model]]:
    """Yield the models of `kind` in the order of its fields."""
    schema = kind.model_json_schema(by_alias=True)
    models = {model.__name__: model for model in models_of(kind)}
    visited: set[str] = set()

    def below(given: Schema) -> Iterator[str]:
        for name in _references(given):
            if name in models and name not in visited and name != "ObjectMeta":
                visited.add(name)
                yield name
                yield from below(schema["$defs"][name])

    yield from (models[name] for name in below(schema["properties"]))


def _references(given: Any) -> Iterator[str]:
    if isinstance(given, dict):
        if name := reference(given):
            yield name
        for value in given.values():
            yield from _references(value)
    elif isinstance(given, list):
        for value in given:
            yield from _references(value)


def _contents(shared: list[type[Model]]) -> str:
    rows = [
        f"| [{k.__name__}](#{_anchor(k)}) | `{k.resource.short_name}` | `{k.resource.plural}` "
        f"| {plain(k.__doc__ or '')} |"
        for k in KINDS
    ]
    parts = ", ".join(f"[{m.__name__}](#{_anchor(m)})" for m in shared)
    head = "| kind | short | plural | what it is |\n| --- | --- | --- | --- |"
    return "\n".join([head, *rows, "", f"Shared parts: {parts}."])


def _kind(kind: type[Resource]) -> str:
    info = kind.resource
    columns = ", ".join(column.name for column in info.columns if not column.priority)
    wide = ", ".join(column.name for column in info.columns if column.priority)
    scope = "Namespaced. " if info.namespaced else ""
    text = (
        f"\n## {kind.__name__}\n\n{_described(kind)}{scope}Short name `{info.short_name}`. "
        f"`kubectl get` shows {columns}{f'; with `-o wide` also {wide}' if wide else ''}."
    )
    if info.selectable_fields:
        fields = " and ".join(f"`{path[1:]}`" for path in info.selectable_fields)
        text += f" Field selectors: {fields}."
    return text + "\n"


def _section(model: type[Model], kind: type[Resource]) -> str:
    given = kind.model_json_schema(by_alias=True)["$defs"]
    schema = given[model.__name__]
    lines = [f"### {model.__name__}\n", _described(model).rstrip(), ""]
    lines += ["| field | type | default | limits | |", "| --- | --- | --- | --- | --- |"]
    for name, field in model.model_fields.items():
        wire = field.alias or name
        cells = (
            f"`{wire}`",
            _type(schema["properties"][wire], given),
            _default(field, by_rule=wire in model.defaulted_in_python),
            _limits(schema["properties"][wire], given),
            plain(field.description or "").replace("|", "\\|"),
        )
        lines.append(f"| {' | '.join(cells)} |")
    if model.mutable is not None:
        free = " and ".join(f"`{name}`" for name in model.mutable)
        lines += ["", f"Immutable{f' but for {free}' if free else ''}."]
    if model.cel:
        lines += ["", "Refused by rule:", ""]
        lines += [f"- {f'`{rule.at}` ' if rule.at else ''}{rule.message}" for rule in model.cel]
    return "\n".join(lines) + "\n"


def _type(given: Schema, definitions: Schema) -> str:
    given = without_null(given)
    if name := reference(given):
        target = definitions[name]
        return (
            f"[{name}](#{name.lower()})" if "properties" in target else _type(target, definitions)
        )
    if "anyOf" in given:
        return "number, text, true or false" if len(given["anyOf"]) > 2 else "whole number or text"
    if given.get("x-kubernetes-int-or-string"):
        return "share"
    if given.get("x-kubernetes-preserve-unknown-fields"):
        return "any value"
    if given.get("pattern") == DURATION:
        return "duration"
    if given.get("format") == "date-time":
        return "instant"
    if choices := given.get("enum") or ([given["const"]] if "const" in given else []):
        return ", ".join(f"`{to_wire(c) if c is not True else 'true'}`" for c in choices)
    if given["type"] == "array":
        return f"list of {_type(given['items'], definitions)}"
    if given["type"] == "object" and "additionalProperties" not in given:
        return "object"
    if given["type"] == "object":
        return f"map of {_type(given['additionalProperties'], definitions)}"
    names = {"string": "text", "integer": "whole number", "number": "number"}
    return names.get(given["type"], "true or false")


def _default(field: FieldInfo, *, by_rule: bool) -> str:
    if field.is_required():
        return "by rule" if by_rule else "**required**"
    wire = to_wire(field.get_default(call_default_factory=True))
    if wire is None or wire in ("", [], {}):
        return ""
    if isinstance(wire, list):
        return ", ".join(f"`{_inline(item)}`" for item in wire)
    return f"`{_inline(wire)}`"


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_inline(v)}" for k, v in value.items()) + "}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _limits(given: Schema, definitions: Schema) -> str:
    given = without_null(given)
    if given.get("pattern") == DURATION or given.get("x-kubernetes-int-or-string"):
        return ""
    low, high = given.get("minimum"), given.get("maximum")
    texts = []
    if low is not None and high is not None:
        texts.append(f"{low} to {high}")
    elif low is not None:
        texts.append(f"{low} or more")
    if "exclusiveMinimum" in given:
        texts.append(f"above {given['exclusiveMinimum']:g}")
    counts = (("Length", "characters"), ("Items", "items"), ("Properties", "entries"))
    for what, unit in counts:
        least, most = given.get(f"min{what}"), given.get(f"max{what}")
        if most is not None:
            texts.append(f"{f'{least} to ' if least else 'at most '}{most} {unit}")
    if "pattern" in given:
        texts.append(f"`{given['pattern']}`".replace("|", "\\|"))
    return ", ".join(texts)


def _described(model: type[Model]) -> str:
    own = model.__doc__ if model.__doc__ and model.__doc__ is not Model.__doc__ else ""
    return f"{plain(own)}\n\n" if own else ""


def _anchor(model: type[Model]) -> str:
    return model.__name__.lower()


def main(arguments: list[str]) -> int:
    return run({FILE: page()}, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
