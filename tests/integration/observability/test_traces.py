"""One fault, one trace: through three processes, over a kill, and the agent's part with it.

The remedy operator and Kube Defender run as programs; a collector of the test takes OTLP over HTTP;
the agent's half is written into the job as the agent writes it, which never sends a span itself.
"""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.command import kubenode
from support.daemons import free_port
from support.defender_objects import node_object, policy_object
from support.embedded import EmbeddedPlane
from support.otlp_receiver import OtlpReceiver, Received
from support.programs import Program
from support.sick_node import JOBS, rule, say
from support.waiting import until

from kubenode.runtime.clock import SystemClock

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
PATIENCE = 90.0
RESTART = {"action": "RestartUnit", "unit": "kubelet.service", "timeout": "5m"}
RULE = rule("restart", {"cordon": {}}, {"agent": RESTART})


def job_of(plane: EmbeddedPlane) -> dict[str, Any]:
    found: list[dict[str, Any]] = plane.get(JOBS)["items"]
    return found[0] if found else {}


def request_of(plane: EmbeddedPlane) -> str:
    """What the agent is asked for; "" for nothing yet."""
    steps = job_of(plane).get("status", {}).get("steps", [])
    asked = [step for step in steps if step.get("by") == "Agent" and step.get("askedAt")]
    return asked[-1]["requestID"] if asked else ""


def answer(plane: EmbeddedPlane, request: str) -> None:
    """As the agent writes it."""
    now = SystemClock().now()
    begun = now - timedelta(milliseconds=300)
    done = {
        "state": "Done",
        "startedAt": begun.isoformat(timespec="milliseconds"),
        "finishedAt": now.isoformat(timespec="milliseconds"),
    }
    body = {"status": {"agent": {"requests": {request: done}}}}
    path = f"{JOBS}/{job_of(plane)['metadata']['name']}/status"
    plane.patch(path, body)


@pytest.fixture(scope="module")
def spans(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Received]]:
    """Of a node that falls ill and is healed, while the remedy operator is killed once."""
    folder = tmp_path_factory.mktemp("traces")
    with EmbeddedPlane() as plane, OtlpReceiver() as receiver:
        assert kubenode("install", "--kubeconfig", plane.kubeconfig).returncode == 0
        nodes = [node_object(f"n{i}", {}) for i in range(10)]
        policy = policy_object(limits=[{"scope": "Cluster", "maxConcurrent": 3}])
        plane.api.load(json.loads(json.dumps([*nodes, policy, RULE])))
        yield _story(plane, receiver, folder)


def _story(plane: EmbeddedPlane, receiver: OtlpReceiver, folder: Path) -> list[Received]:
    door = free_port()
    shared = ("--kubeconfig", str(plane.kubeconfig), "--no-lease", "--health-port", "0",
              "--traces-url", receiver.url)  # fmt: skip
    words = ("run", "remedy", *shared, "--defender-url", f"http://127.0.0.1:{door}")
    defender = Program("defender", ("run", "defender", *shared, "--listen-port", str(door)), folder)
    remedy = Program("remedy", words, folder)

    def seen(look: Callable[[], object], what: str) -> None:
        until(look, what, PATIENCE, lambda: (remedy.log + defender.log)[-6000:])

    try:
        defender.start()
        remedy.start()
        say(plane, "n0", Ready="True", Sick="True")  # of one clock, however late this is first read
        seen(lambda: request_of(plane), "the agent is asked")
        seen(lambda: _named(receiver, "step cordon"), "the first step is told")
        remedy.kill()
        answer(plane, request_of(plane))
        remedy.start()
        seen(lambda: _phase(plane) == "Verifying", "the steps are done")
        say(plane, "n0", Sick="False")
        seen(lambda: _phase(plane) == "Succeeded", "the node is healed")
        seen(lambda: _named(receiver, "fault"), "the end is told")
        seen(lambda: _named(receiver, "verdict"), "the verdict is told")
        return receiver.spans
    finally:
        remedy.kill()
        defender.kill()


def _phase(plane: EmbeddedPlane) -> str:
    return str(job_of(plane).get("status", {}).get("phase", ""))


def _named(receiver: OtlpReceiver, name: str) -> bool:
    return any(span.name == name for span in receiver.spans)


def one(spans: list[Received], name: str) -> Received:
    (found,) = [span for span in spans if span.name == name]
    return found


def test_every_part_of_the_way_is_in_one_trace(spans: list[Received]) -> None:
    fault = one(spans, "fault")
    assert {span.trace for span in spans} == {fault.trace}
    assert fault.parent == ""
    assert fault.about["k8s.node.name"] == "n0"
    assert fault.about["kubenode.phase"] == "Succeeded"
    ways = {"detect", "decide", "diagnose", "create job", "act AskPermit", "verdict"}
    ways |= {"step cordon", "act Cordon", "step agent", "agent agent", "verify", "act Uncordon"}
    assert ways <= {span.name for span in spans}


def test_every_span_hangs_on_another_and_lies_within_the_fault(spans: list[Received]) -> None:
    known = {span.span for span in spans}
    fault = one(spans, "fault")
    for span in spans:
        assert span.parent in known or span is fault, span
        assert span.start <= span.end
        assert fault.start <= span.start or span.name == "detect", span


def test_what_another_process_did_hangs_on_the_call(spans: list[Received]) -> None:
    asked = {span.span for span in spans if span.name == "act AskPermit"}
    verdicts = [span for span in spans if span.name == "verdict"]
    assert {span.parent for span in verdicts} <= asked
    assert {span.service for span in verdicts} == {"kubenode-defender"}
    assert {span.service for span in spans if span.span in asked} == {"kubenode-remedy"}
    assert any(span.about["kubenode.allowed"] for span in verdicts)


def test_the_agents_part_is_told_by_the_leader_that_came_after(spans: list[Received]) -> None:
    step, agent = one(spans, "step agent"), one(spans, "agent agent")
    assert agent.parent == step.span
    assert step.parent == one(spans, "fault").span
    assert agent.end - agent.start == pytest.approx(0.3, abs=0.01)
