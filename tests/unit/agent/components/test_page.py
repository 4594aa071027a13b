"""docs/components.md draws the states as the code has them, and explains every reason."""

import re
from pathlib import Path

from agent.components import engine, library, model, observations, observer, step
from agent.components.model import ComponentApplyState
from agent.components.step import EDGES

PAGE = (Path(__file__).parents[4] / "docs" / "components.md").read_text()
_REASON = re.compile(r'"((?:[A-Z][a-z]+){2,})"')


def test_it_draws_every_edge() -> None:
    drawn = {tuple(line.split(" --> ")) for line in re.findall(r"^  (\w+ --> \w+)$", PAGE, re.M)}
    edges = {
        (a.value, b.value)
        for a in ComponentApplyState
        for b in EDGES[a]
        if b is not ComponentApplyState.PENDING
    }
    assert drawn == edges


def test_it_explains_every_reason() -> None:
    told = set(re.findall(r"`([A-Z]\w+)`", PAGE)) | {"NothingToVerify"}
    reasons = set()
    for module in (engine, observations, model, library, observer, step):
        reasons |= set(_REASON.findall(Path(str(module.__file__)).read_text()))
    states = {state.value for state in ComponentApplyState}
    kinds = {"ConfigMap", "UndoFailed", "RemoveFailed"}
    assert reasons - states - kinds <= told
