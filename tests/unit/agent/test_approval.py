"""ApproveEvent stands behind the step `approveEvent` alone, for the event that its record names."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.agent_world import World, a_job

from agent.wire import WireJob, decode_job


def a_job_with(step: dict[str, Any], **record: Any) -> WireJob:
    raw = msgspec.to_builtins(a_job(asked=record))
    raw["spec"]["ladder"] = [{"name": "evacuate", "steps": [step]}]
    return decode_job(msgspec.json.encode(raw))


async def answered(tmp_path: Path, step: dict[str, Any], **record: Any) -> tuple[str, str]:
    world = World(tmp_path / "journal", job=a_job_with(step, **record))
    assert world.job is not None
    await world.core().handle(world.job)
    answer = world.answer_now
    assert answer is not None
    return answer.state, answer.output


async def test_it_cannot_be_asked_for_as_an_agent_step(tmp_path: Path) -> None:
    step = {"agent": {"action": "ApproveEvent", "params": {"event": "e-1"}}}
    state, output = await answered(tmp_path, step, output={"event": "e-1"})
    assert (state, "no agent step" in output) == ("Refused", True)


async def test_a_record_that_names_no_event_lets_nothing_go_ahead(tmp_path: Path) -> None:
    state, output = await answered(tmp_path, {"approveEvent": {}}, output={"r1": "Asked"})
    assert (state, "names no event" in output) == ("Refused", True)


async def test_where_settings_name_no_cloud_nobody_is_asked(tmp_path: Path) -> None:
    state, output = await answered(tmp_path, {"approveEvent": {}}, output={"event": "e-1"})
    assert (state, "[metadata]" in output) == ("Refused", True)


@pytest.mark.parametrize("by", ["Provider", "Operator"])
async def test_what_another_is_asked_for_is_no_request_of_the_agent(
    tmp_path: Path, by: str
) -> None:
    job = a_job_with({"approveEvent": {}}, by=by, output={"event": "e-1"})
    world = World(tmp_path / "journal", job=job)
    await world.core().handle(job)
    assert world.answers == []
