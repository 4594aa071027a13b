"""Steps `label` and `annotate` at run time: a job may follow a rule that was stored before its key
was refused.
"""

from types import SimpleNamespace
from typing import Any

import pytest
from support.remedy_builders import TELL, a_job, an_object, seen
from support.remedy_world import FakeWorld, closed

from remedy.job.steps.node_keys import NodeKeyAct, NodeKeyActor
from remedy.power.observation import RequestOutcome
from rules.nodekeys import NodeKeys

MARK: dict[str, Any] = {
    "name": "mark",
    "steps": [{"label": {"key": "example.com/pool", "value": "x"}}],
    "verify": {"for": "1m", "timeout": "5m"},
}


async def test_a_refused_key_fails_the_step_at_once_with_the_reason_and_the_job_climbs() -> None:
    world = FakeWorld(an_object(MARK, TELL), refused_key="key 'example.com/pool' is not allowed")
    await world.run(lambda w: w.job.status.rung == 1 or closed(w), hours=0.05)
    [record] = [r for r in world.job.status.steps if r.rung == 0]
    assert (record.state, record.message) == ("Failed", "key 'example.com/pool' is not allowed")
    assert world.labels == {}


@pytest.mark.parametrize(
    ("key", "class_", "is_set"),
    [
        ("kubenode.io/suspect", None, True),
        ("kubernetes.io/os", None, False),
        ("kubenode.io/machine", "Node", False),
        ("example.com/pool", None, False),
        ("example.com/drained", None, False),
        ("example.com/drained", "Pods", True),
    ],
)
@pytest.mark.parametrize("act", ["label", "annotate"])
async def test_only_allowed_keys_reach_the_node(
    act: str, key: str, class_: str | None, is_set: bool
) -> None:
    written: list[str] = []

    async def keep(job: Any, field: str, key: str, value: str) -> None:
        written.append(f"{field} {key}={value}")

    rung = {"name": "mark", "steps": [{act: {"key": key, "value": "x"}}]}
    job = a_job({**rung, **({"disruption": class_} if class_ else {})})
    nodes: Any = SimpleNamespace(set=keep)
    keys = NodeKeys(disruptive=("example.com/drained",))
    what = NodeKeyAct.LABEL if act == "label" else NodeKeyAct.ANNOTATE
    heard = await NodeKeyActor(nodes, keys.refusal).act(job, what, seen())
    assert heard.act is (NodeKeyAct.LABEL if act == "label" else NodeKeyAct.ANNOTATE)
    assert bool(written) is is_set
    assert (heard.outcome is RequestOutcome.REFUSED) is not is_set
    assert bool(heard.error) is not is_set
