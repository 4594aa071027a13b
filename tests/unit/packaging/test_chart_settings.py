"""`settings` of the chart's values has the names of each program's settings, and no others."""

import json
from pathlib import Path

import pytest

from kubenode.cli.captain_settings import CaptainFlags
from kubenode.cli.defender_settings import DefenderFlags
from kubenode.cli.insight_settings import InsightFlags
from kubenode.cli.machine_settings import MachineFlags
from kubenode.cli.remedy_settings import RemedyFlags
from kubenode.runtime.settings_model import ProcessSettings, declared

SCHEMA = Path(__file__).parents[3] / "charts" / "kubenode" / "values.schema.json"


@pytest.mark.parametrize(
    ("part", "model"),
    [
        ("remedy", RemedyFlags),
        ("defender", DefenderFlags),
        ("machine", MachineFlags),
        ("insight", InsightFlags),
        ("captain", CaptainFlags),
    ],
)
def test_the_chart_accepts_the_names_of_settings_alone(
    part: str, model: type[ProcessSettings]
) -> None:
    values = json.loads(SCHEMA.read_text())["properties"][part]["properties"]["settings"]
    assert values["propertyNames"] == {"enum": sorted(declared(model))}
