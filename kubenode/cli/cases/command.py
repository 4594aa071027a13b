"""`kubenode rules cases`: labelled cases through the production code, one prediction for each."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import typer

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.cli.cases.driving import drive, later
from kubenode.cli.cases.form import Case
from kubenode.cli.cases.predicting import predict
from kubenode.cli.cases.reading import BadCases, read
from kubenode.cli.cases.scoring import Prediction, score
from kubenode.cli.cases.setting import setting
from kubenode.cli.cases.table import lines
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.library import rules_from


def command(
    files: Sequence[Path],
    *,
    rules: Sequence[Path] = (),
    output: Literal["json", "table"] = "json",
    all_: bool = False,
) -> Exit:
    """json: predictions on standard output, the report on standard error; table: the report alone.

    all_  also cases whose kind or stage is not judged yet, as far as they can be played.
    FINDING: a case was answered with what it says must not be done.
    """
    loaded = rules_from(rules)
    try:
        cases = read(files)
    except BadCases as error:
        raise Refusal(str(error), Exit.USAGE) from error
    judged = [case for case in cases if all_ or not later(case)]
    for line in [*left_out(cases if not all_ else []), *not_played(judged)]:
        typer.echo(line, err=True)
    found = predictions(judged, loaded)
    if output == "json":
        for prediction in found.values():
            typer.echo(prediction.model_dump_json(exclude_none=False))
    result = score(judged, found)
    for line in lines(result):
        typer.echo(line, err=output == "json")
    return Exit.FINDING if result.violations else Exit.FINE


def predictions(cases: Sequence[Case], rules: Sequence[NodeRemedier]) -> dict[str, Prediction]:
    """By id, in the order of the cases."""
    return {case.id: predict(case, drive(case, rules)) for case in cases}


def left_out(cases: Sequence[Case]) -> list[str]:
    """A line for each reason why cases are not judged, with their count and names."""
    reasons = Counter(why for case in cases if (why := later(case)))
    found = []
    for why, count in reasons.items():
        names = ", ".join(case.id for case in cases if later(case) == why)
        found.append(f"left out {count} of {len(cases)}: {why}: {names}")
    return found


def not_played(cases: Sequence[Case]) -> list[str]:
    """A line for each part that cases have and the simulation has no place for yet."""
    without: dict[str, list[str]] = {}
    for case in cases:
        for part in setting(case).skipped:
            without.setdefault(part, []).append(case.id)
    return [
        f"{part} not played in {len(names)} of {len(cases)}: {', '.join(names)}"
        for part, names in without.items()
    ]
