"""docs/repairs.md tells of every action and parameter, and maps the list of the field's actions."""

import json
import re
from pathlib import Path

from support.case_data import shared_folder

from agent.actions import CATALOGUE
from kubenode.api.v1alpha1.ladder import Step
from kubenode.api.v1alpha1.steps import AgentAction
from kubenode.runtime.agentparams import PARAMETERS

PAGE = (Path(__file__).parents[3] / "docs" / "repairs.md").read_text()


def test_every_action_has_a_place_with_its_parameters() -> None:
    sections = re.findall(r"^### (.+?)\n(.+?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL)
    told = {name: text for title, text in sections for name in title.split(", ")}
    assert {action.value for action in AgentAction} <= told.keys()
    assert set(CATALOGUE) - {"ApproveEvent"} <= told.keys()
    for action, parameters in PARAMETERS.items():
        assert [p for p in parameters if f"`{p}`" not in told[action]] == [], action
    assert {"RunScript", *PARAMETERS} == {action.value for action in AgentAction}


def _rows() -> dict[str, tuple[str, str]]:
    table = PAGE.partition("## Other lists of actions")[2]
    rows = re.findall(r"^\| ([a-z_]+) \| ([^|]+) \|([^|]*)\|$", table, re.MULTILINE)
    return {name: (here, why) for name, here, why in rows if name != "action"}


def test_every_row_names_a_step_that_exists_or_says_why_there_is_none() -> None:
    steps = {field.alias or name for name, field in Step.model_fields.items()}
    actions = {action.value for action in AgentAction}
    rows = _rows()
    assert len(rows) == 45
    for name, (here, why) in rows.items():
        if here == "refused":
            assert len(why) > 20, name
            continue
        for word in here.split(", "):
            assert word.strip("`") in (steps if word.startswith("`") else actions), name


def test_the_rows_are_the_actions_of_the_list() -> None:
    listed = json.loads((shared_folder() / "actions.json").read_text())["actions"]
    assert sorted(_rows()) == sorted(row["id"] for row in listed)
