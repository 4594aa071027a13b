"""Templates of `-o jsonpath=TEMPLATE`, the part of kubectl's that lists need. Pure.

    {.items[*].name}                                  values, with spaces between them
    {range .items[*]}{.name}{"\\n"}{end}               text for each value
    {.items[0].labels['a.b/c']}   {.labels.a\\.b/c}    names with dots

A missing field is empty text. Filters, slices and recursive descent are refused.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

PART = re.compile(r"(?P<text>[^{]+)|\{(?P<expression>(?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^{}])*)\}")
STEP = re.compile(
    r"\.(?P<field>(?:[^\s.\[\]{}'\"\\*?()]|\\.)+)|\[(?P<index>-?\d+)\]|\['(?P<key>[^']+)'\]"
    r"|(?P<all>\[\*\]|\.\*)"
)
EXAMPLE = "write such as '{.items[*].name}'"
Step = str | int | None
"""A key, an index, or None for all elements."""


class JsonPathError(ValueError):
    """The template is invalid. Says where, and what is accepted."""


@dataclass(frozen=True, slots=True)
class LiteralPart:
    text: str


@dataclass(frozen=True, slots=True)
class PathPart:
    path: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class RangePart:
    path: tuple[Step, ...]
    body: "JsonPathTemplate"


JsonPathTemplate = Sequence[LiteralPart | PathPart | RangePart]
OUTPUT_TEMPLATE: ContextVar[JsonPathTemplate | None] = ContextVar("output template", default=None)
"""The template of the command that runs, None for another format."""


def parse_template(text: str) -> JsonPathTemplate:
    """Parse a template. Raises JsonPathError."""
    parts = _parts(text)
    template = list(_body(parts, within_range=False))
    if not any(isinstance(part, PathPart | RangePart) for part in template):
        raise JsonPathError(f"template {text!r} has no field in braces; {EXAMPLE}")
    return template


def render(template: JsonPathTemplate, data: Any) -> str:
    """Return the text of the template. A list is the field `items` of the root."""
    return _rendered(template, {"items": data} if isinstance(data, list) else data)


def _parts(text: str) -> Iterator[tuple[bool, str]]:
    """Yield (whether it is an expression, content) of each part."""
    at = 0
    while at < len(text):
        match = PART.match(text, at)
        if match is None:
            raise JsonPathError(f"template: the brace at character {at + 1} is not closed")
        at = match.end()
        expression = match["expression"]
        yield (False, match["text"]) if expression is None else (True, expression.strip())


def _body(parts: Iterator[tuple[bool, str]], *, within_range: bool) -> Iterator[Any]:
    for is_expression, content in parts:
        if not is_expression:
            yield LiteralPart(content)
        elif content == "end" and within_range:
            return
        elif content == "end":
            raise JsonPathError("template: {end} without {range}")
        elif content.startswith("range "):
            body = list(_body(parts, within_range=True))
            yield RangePart(_path(content.removeprefix("range").strip()), body)
        elif content.startswith('"'):
            yield LiteralPart(_literal(content))
        else:
            yield PathPart(_path(content))
    if within_range:
        raise JsonPathError("template: {range} without {end}")


def _literal(text: str) -> str:
    try:
        return str(json.loads(text))
    except ValueError as error:
        raise JsonPathError(f"template: {text} is no text: {error}") from error


def _path(text: str) -> tuple[Step, ...]:
    rest = text.removeprefix("$").removeprefix("@")
    steps: list[Step] = []
    at = 0
    while at < len(rest):
        match = STEP.match(rest, at)
        if match is None:
            raise JsonPathError(
                f"template: {{{text}}}: {rest[at:]!r} is not supported: fields (.name), indexes"
                f" ([0]) and [*] are; {EXAMPLE}"
            )
        at = match.end()
        if match["index"] is not None:
            steps.append(int(match["index"]))
        elif match["all"] is not None:
            steps.append(None)
        else:
            steps.append(match["key"] or re.sub(r"\\(.)", r"\1", match["field"]))
    if not steps and text not in ("$", "@"):
        raise JsonPathError(f"template: {{{text}}} names no field; {EXAMPLE}")
    return tuple(steps)


def _rendered(template: JsonPathTemplate, data: Any) -> str:
    return "".join(_part_text(part, data) for part in template)


def _part_text(part: LiteralPart | PathPart | RangePart, data: Any) -> str:
    match part:
        case LiteralPart():
            return part.text
        case PathPart():
            return " ".join(map(_value_text, _select(part.path, data)))
        case RangePart():
            return "".join(_rendered(part.body, each) for each in _select(part.path, data))


def _select(path: tuple[Step, ...], data: Any) -> Iterator[Any]:
    """Yield the values at the path; none if a field or element is missing."""
    if not path:
        yield data
        return
    step, rest = path[0], path[1:]
    for child in _children(step, data):
        yield from _select(rest, child)


def _children(step: Step, data: Any) -> Sequence[Any]:
    match data:
        case dict() if step is None:
            return list(data.values())
        case dict() if isinstance(step, str) and step in data:
            return [data[step]]
        case list() if step is None:
            return data
        case list() if isinstance(step, int) and -len(data) <= step < len(data):
            return [data[step]]
        case _:
            return []


def _value_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
