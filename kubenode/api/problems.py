"""Validation errors as lines of text with field, problem and remedy.

    spec.nodes.selector: empty and would mean every node: write matchLabels, or `all: true` if meant
    rule.yaml:14: spec.coolDown: 1m is an unknown field: did you mean cooldown?

The command line, the status of a rule and admission show the same lines.
"""

import difflib
import json
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from kubenode.api.base import Model
from kubenode.api.v1alpha1 import KINDS

Path = tuple[str | int, ...]
Where = Callable[[Path], str]
"""Function that returns the position of a field, such as `rule.yaml:14`; "" if unknown."""

LONGEST_VALUE = 60
"""Maximum number of characters of a value in a message. Longer values are truncated."""
KINDS_OF_VALUE: Mapping[str, str] = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a map",
    "model_type": "a map",
    "model_attributes_type": "a map",
}


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """Problem at `path`. `text` describes it and the remedy."""

    path: Path
    text: str


def problems(
    error: ValidationError, model: type[Model] | None = None, where: Where = lambda _: ""
) -> list[str]:
    """Return one line for each problem of `error`, as listed by `list_problems`."""
    lines = []
    for problem in list_problems(error, model):
        place = where(problem.path)
        prefix = f"{place}: " if place else ""
        lines.append(f"{prefix}{field_path(problem.path)}: {problem.text}")
    return lines


def list_problems(error: ValidationError, model: type[Model] | None = None) -> list[FieldProblem]:
    """Return the problems of `error` in the order of their detection, without duplicates.

    model: validated model; None if the title of the error names a kind. Distinguishes fields from
    the tags that pydantic adds to a path, and provides names to suggest.
    """
    model = model or next((kind for kind in KINDS if kind.__name__ == error.title), None)
    grouped: dict[Path, list[ErrorDetails]] = {}
    for details in error.errors(include_url=False):
        grouped.setdefault(_path(details, model), []).append(details)
    all_problems = []
    for path, several in grouped.items():
        texts = _alternatives(several) or [_text(entry, path, model) for entry in several]
        all_problems += [FieldProblem(path, text) for text in texts]
    return list(dict.fromkeys(all_problems))


def field_path(path: Path) -> str:
    """Return `path` in the notation of kubectl: `spec.when.all[0].condition`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".") or "object"


def _path(details: ErrorDetails, model: type[Model] | None) -> Path:
    path = details["loc"]
    if model is not None:
        path = path[: len(_walk(path, model))]
    at = details.get("ctx", {}).get("at", "") if details["type"] == "rule" else ""
    return (*path, *at.split(".")) if at else path


def _walk(path: Path, model: type[Model]) -> list[Any]:
    """Return the type that each part of `path` is a field of: a model, list or dict. Ends at tags
    of pydantic."""
    owners: list[Any] = []
    here: Any = model
    for part in path:
        here = _bare(here)
        if isinstance(here, type) and issubclass(here, Model):
            field = next((f for n, f in here.model_fields.items() if (f.alias or n) == part), None)
            after = field.annotation if field is not None else None
        elif get_origin(here) is list and isinstance(part, int):
            after = get_args(here)[0]
        elif get_origin(here) is dict:
            after = get_args(here)[1]
        elif here is None:
            after = None
        else:
            break
        owners.append(here)
        here = after
    return owners


def _bare(annotation: Any) -> Any:
    """Return `annotation` without Annotated and without `| None`."""
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        options = [option for option in get_args(annotation) if option is not type(None)]
        if len(options) == 1:
            return _bare(options[0])
    return annotation


def _alternatives(several: list[ErrorDetails]) -> list[str]:
    """Return one text for a value that matches none of the allowed types, otherwise nothing."""
    if len(several) < 2 or any(details["type"] not in KINDS_OF_VALUE for details in several):
        return []
    wanted = dict.fromkeys(KINDS_OF_VALUE[details["type"]] for details in several)
    return [f"{_shown(several[0]['input'])} does not fit: write {' or '.join(wanted)}"]


def _text(details: ErrorDetails, path: Path, model: type[Model] | None) -> str:
    kind, context, value = details["type"], details.get("ctx", {}), details["input"]
    match kind:
        case "rule":
            return str(context["message"])
        case "value_error":
            return str(context["error"])
        case "extra_forbidden":
            return f"{_shown(value)} is an unknown field: {_suggestion(path, model)}"
        case "missing":
            return f"required and missing: {_choices(path, model) or 'add it'}"
        case "enum" | "literal_error":
            return _not_a_choice(value, str(context["expected"]))
        case "string_pattern_mismatch":
            return f"{_shown(value)} does not have the form {context['pattern']}: rewrite it"
        case "greater_than_equal":
            return f"{_shown(value)} is too small: write {context['ge']} or more"
        case "greater_than":
            return f"{_shown(value)} is too small: write more than {context['gt']:g}"
        case "less_than_equal":
            return f"{_shown(value)} is too large: write {context['le']} or less"
        case "too_short" | "string_too_short":
            return f"{_shown(value)} is too short: give {context['min_length']} or more"
        case "too_long" | "string_too_long":
            return f"{_shown(value)} is too long: give {context['max_length']} at most"
        case _:
            wanted = KINDS_OF_VALUE.get(kind)
            if wanted is None:
                return f"{_shown(value)}: {details['msg']}"
            return f"{_shown(value)} does not fit: write {wanted}{_quote(kind, value)}"


def _not_a_choice(value: Any, expected: str) -> str:
    choices = "true" if expected == "True" else expected.replace("'", "")
    return f"{_shown(value)} is not known: write {choices}{_quote('string_type', value)}"


def _quote(kind: str, value: Any) -> str:
    """Return a hint for a YAML value such as True or off that some readers parse as a boolean."""
    if kind == "string_type" and isinstance(value, bool | int | float):
        return " (YAML reads a bare word or number: put it in quotes)"
    return ""


def _choices(path: Path, model: type[Model] | None) -> str:
    """Return a remedy with the allowed values if `path` is an enumeration, otherwise ""."""
    here: Any = model
    for owner, part in zip(_walk(path, model) if model else [], path, strict=False):
        if isinstance(owner, type) and issubclass(owner, Model):
            fields = ((f.alias or n, f) for n, f in owner.model_fields.items())
            here = next((_bare(f.annotation) for name, f in fields if name == part), None)
    if not (isinstance(here, type) and issubclass(here, StrEnum)):
        return ""
    *most, last = here
    return f"write {', '.join(most)} or {last}"


def _suggestion(path: Path, model: type[Model] | None) -> str:
    owners = _walk(path, model) if model is not None else []
    owner = owners[-1] if owners else None
    if not (isinstance(owner, type) and issubclass(owner, Model)):
        return "leave it out"
    known = [field.alias or name for name, field in owner.model_fields.items()]
    near = difflib.get_close_matches(str(path[-1]), known, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]}?"
    return f"leave it out, known are {', '.join(known)}"


def _shown(value: Any) -> str:
    """Return `value` as JSON on one line, truncated if it is long."""
    try:
        text = json.dumps(value, default=str, ensure_ascii=False)
    except (TypeError, ValueError):
        text = str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
