"""An agent's identity on a real API server answers its own questions, and nothing else of them."""

from collections.abc import Iterator
from typing import Any

import pytest
from support.agent_jobs import GROUP, PROBES, Caller, Operator, a_probe, install, stamp, user
from support.control_plane import ControlPlane

from kubenode.api.v1alpha1.hostprobe import HostProbeStatus

pytestmark = pytest.mark.integration

MINE, THEIRS = "probe-mine", "probe-theirs"
ANSWER = {"answer": {"used_pct": 40.5}, "answeredAt": "2026-01-01T12:00:00Z", "error": ""}
OTHER_FIELDS: dict[str, Any] = {
    "observedGeneration": 9,
    "conditions": [
        {"type": "Seen", "status": "True", "reason": "R", "lastTransitionTime": stamp()}
    ],
}


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    install(control_plane)
    operator = Operator(control_plane)
    operator.ask(a_probe(MINE, "p1", "disk"))
    operator.ask(a_probe(THEIRS, "p2", "disk"))
    yield control_plane
    control_plane.kubectl("delete", "knhp", MINE, THEIRS)


@pytest.fixture(scope="module")
def p1(cluster: ControlPlane) -> Caller:
    return Caller(cluster, user("p1"), [GROUP])


def answer(caller: Caller, probe: str, status: Any) -> tuple[int, str]:
    return caller.ask("PATCH", f"{PROBES}/{probe}/status", {"status": status})


def test_it_reads_questions_and_answers_its_own(p1: Caller, cluster: ControlPlane) -> None:
    code, listed = p1.ask("GET", f"{PROBES}?fieldSelector=spec.agent%3Dp1")
    assert code == 200 and MINE in listed and THEIRS not in listed
    code, said = answer(p1, MINE, ANSWER)
    assert code == 200, said
    assert cluster.get(f"{PROBES}/{MINE}")["status"]["answer"] == {"used_pct": 40.5}


def test_the_list_of_other_fields_is_complete() -> None:
    fields = {f.alias or name for name, f in HostProbeStatus.model_fields.items()}
    assert fields - {"answer", "answeredAt", "error"} == set(OTHER_FIELDS)


@pytest.mark.parametrize("field", OTHER_FIELDS)
def test_no_other_field_of_the_status(p1: Caller, field: str) -> None:
    code, said = answer(p1, MINE, {field: OTHER_FIELDS[field], **ANSWER})
    assert code == 403
    assert "an agent writes answer, answeredAt and error and no other field" in said


def test_nobody_elses_question(p1: Caller) -> None:
    code, said = answer(p1, THEIRS, ANSWER)
    assert code == 403
    assert "may answer questions with spec.agent" in said


@pytest.mark.parametrize("about", ["power", "ready", "peers"])
def test_not_what_others_say_of_its_own_host(p1: Caller, cluster: ControlPlane, about: str) -> None:
    name = Operator(cluster).ask(a_probe(f"probe-{about}", "p1", about))
    code, said = answer(p1, name, ANSWER)
    cluster.kubectl("delete", "knhp", name)
    assert code == 403
    assert "as a witness what it sees of another" in said


def test_f05_a_witness_answers_for_itself_alone(p1: Caller, cluster: ControlPlane) -> None:
    operator, names = Operator(cluster), []
    for witness in ("p1", "p2"):
        probe = a_probe(f"witness-{witness}", witness, "peers")
        probe["spec"] |= {"nodeName": "", "args": {"for": "n1-peers", "address": "10.0.0.9"}}
        names.append(operator.ask(probe))
    said = {"answer": {"reached": False, "control": True}, "answeredAt": "2026-01-01T12:00:00Z"}
    codes = [answer(p1, name, said)[0] for name in names]
    cluster.kubectl("delete", "knhp", *names)
    assert codes == [200, 403]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", PROBES, a_probe("probe-new", "p1", "disk")),
        ("PATCH", f"{PROBES}/{MINE}", {"metadata": {"labels": {"a": "b"}}}),
        ("DELETE", f"{PROBES}/{MINE}", None),
        ("DELETE", PROBES, None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_everything_else_is_forbidden(p1: Caller, method: str, path: str, body: Any) -> None:
    code, said = p1.ask(method, path, body)
    assert code == 403, said


def test_the_policy_holds_an_agent_even_with_an_administrators_rights(
    cluster: ControlPlane,
) -> None:
    both = Caller(cluster, user("p1"), [GROUP, "system:masters"])
    code, said = both.ask("DELETE", f"{PROBES}/{MINE}")
    assert code == 403 and "the status of its questions and nothing else" in said
    assert both.ask("POST", PROBES, a_probe("probe-new", "p1", "disk"))[0] == 403
