"""`kubenode rules cases`: runs labelled cases through production code, prints predictions."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import typer

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.library import rules_from
from simulation.cases.driver import drive
from simulation.cases.form import Case
from simulation.cases.predictions import predict
from simulation.cases.reader import BadCases, read
from simulation.cases.scores import Prediction, score
from simulation.cases.table import lines
from simulation.replay.compilation import Compiled


def command(
    files: Sequence[Path],
    *,
    rules: Sequence[Path] = (),
    output: Literal["json", "table"] = "json",
) -> Exit:
    """Print predictions and the report. Return FINDING if a prediction does what its case forbids.

    output: json prints predictions on standard output and the report on standard error; table
        prints the report alone.
    """
    loaded = rules_from(rules)
    try:
        cases = read(files)
    except BadCases as error:
        raise Refusal(str(error), Exit.USAGE) from error
    predicted = predictions(cases, loaded)
    if output == "json":
        for prediction in predicted.values():
            typer.echo(prediction.model_dump_json(exclude_none=False))
    result = score(cases, predicted)
    for line in lines(result):
        typer.echo(line, err=output == "json")
    return Exit.FINDING if result.violations else Exit.FINE


def predictions(cases: Sequence[Case], rules: Sequence[NodeRemedier]) -> dict[str, Prediction]:
    """Return the predictions by case ID, in the order of the cases."""
    compiled = Compiled()
    return {case.id: predict(case, drive(case, rules, compiled)) for case in cases}
