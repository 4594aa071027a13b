"""Reads cases from JSON lines. Errors name file and line."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from simulation.cases.form import Case

SHOWN = 5
"""Problems in one error: later ones are often consequences."""


class BadCases(Exception):
    """Cases that cannot be used; the message has a line for each problem."""


def read(paths: Sequence[Path]) -> list[Case]:
    """Return the cases of all files, in order. Raises BadCases with every invalid line."""
    cases: list[Case] = []
    problems: list[str] = []
    first: dict[str, str] = {}
    for path in paths:
        for place, line in _lines(path, problems):
            case = _case(place, line, problems)
            if case is None:
                continue
            if case.id in first:
                problems.append(
                    f"{place}: id: {case.id!r} is taken by {first[case.id]}: choose another"
                )
                continue
            first[case.id] = place
            cases.append(case)
    if problems:
        more = [f"and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
        raise BadCases("\n".join(problems[:SHOWN] + more))
    return cases


def _lines(path: Path, problems: list[str]) -> Iterator[tuple[str, str]]:
    """Yield every line that is not blank, with its place."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"{path}: cannot be read: {error}; name a file of JSON lines in UTF-8")
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield f"{path}:{number}", line


def _case(place: str, line: str, problems: list[str]) -> Case | None:
    try:
        data = json.loads(line)
    except json.JSONDecodeError as error:
        problems.append(
            f"{place}:{error.colno}: no JSON: {error.msg}; write one object on each line"
        )
        return None
    try:
        return Case.model_validate(data)
    except ValidationError as error:
        name = data.get("id") if isinstance(data, dict) else None
        problems += [f"{place}: {_format_problem(name, dict(detail))}" for detail in error.errors()]
        return None


def _format_problem(case: Any, detail: dict[str, Any]) -> str:
    """Return `case ID: field: what is wrong (got VALUE)`."""
    field = ".".join(str(part) for part in detail["loc"])
    who = f"case {case}: " if isinstance(case, str) and case else ""
    got = repr(detail.get("input"))
    shown = "" if detail["type"] == "missing" or len(got) > 80 else f" (got {got})"
    return f"{who}{field + ': ' if field else ''}{detail['msg']}{shown}"
