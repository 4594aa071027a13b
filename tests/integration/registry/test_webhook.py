"""kubectl, a real API server, the chart's rights and webhook, and the operator as a process."""

import json
import re
import ssl
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.registry_plane import Program, RegistryPlane
from support.webhook_world import ISOLATE, a_review, a_spec, an_infer, an_object

from remedy.webhook import decision_signer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

ACCEPT = "kubenode.io/accept-blast-radius"


def stamp() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def a_node(name: str, group: str, status: str) -> dict[str, Any]:
    at = stamp()
    condition = {
        "type": f"Sick{group}",
        "status": status,
        "reason": "Test",
        "lastHeartbeatTime": at,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"registry-test": group}},
        "status": {"conditions": [condition]},
    }


def a_rule(name: str, spec: dict[str, Any], **annotations: str) -> dict[str, Any]:
    rule = an_object(name, spec)
    return {**rule, "metadata": {"name": name, "annotations": annotations}}


@pytest.fixture(scope="module")
def group() -> str:
    return uuid.uuid4().hex[:6]


@pytest.fixture(scope="module")
def fleet(plane: RegistryPlane, group: str) -> Iterator[str]:
    """Twenty nodes; twelve of them have the condition Sick<group>. What marks them is the group."""
    nodes = [a_node(f"r{group}-{n}", group, "True" if n < 12 else "False") for n in range(20)]
    listed = {"apiVersion": "v1", "kind": "List", "items": nodes}
    plane.cp.kubectl("create", "-f", "-", stdin=json.dumps(listed))
    yield group
    plane.cp.kubectl("delete", "nodes", "-l", f"registry-test={group}")
    plane.cp.kubectl("delete", "noderemediers", "--all")


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit") / "audit.jsonl"


@pytest.fixture(scope="module")
def program(plane: RegistryPlane, fleet: str, audit: Path) -> Iterator[Program]:
    """failurePolicy Fail: what the webhook does not answer would be seen as an error."""
    flags = ("--audit-file", str(audit), "--webhook-spokesmen", "bot,another")
    plane.hook("Fail")
    try:
        with plane.operator(*flags) as running:
            _until_trusted(plane)
            yield running
    finally:
        plane.unhook()  # else every rule of the tests that follow on this server is refused
    # An instant may have the digits of the code.
    assert not re.search(r"Forbidden|\b403\b", running.log), running.log


def _until_trusted(plane: RegistryPlane) -> None:
    """The API server hears of a new bundle some moments after it was written."""
    deadline = time.monotonic() + 30
    probe = a_rule("probe", a_spec(mode="DryRun"))
    while (said := plane.apply(probe, "--dry-run=server")).returncode != 0:
        assert time.monotonic() < deadline, said.stderr
        time.sleep(0.2)


def sick(group: str, **more: Any) -> dict[str, Any]:
    return a_spec(when={"condition": {"type": f"Sick{group}", "for": "1m"}}, **more)


def test_a_good_rule_is_admitted_and_its_author_is_told_its_size(
    plane: RegistryPlane, program: Program, fleet: str
) -> None:
    said = plane.apply(a_rule("good", sick(fleet, mode="DryRun")))
    assert said.returncode == 0, said.stderr
    assert "Warning: would match 12 of" in said.stderr
    status = plane.until_status("good", phase="Active", matching=12)
    assert status["wouldReach"]["nodes"] >= 20
    states = {c["type"]: c["status"] for c in status["conditions"]}
    assert states["Compiled"] == states["EnginesAgree"] == "True"


def test_a_rule_that_does_not_compile_is_refused_with_its_path(
    plane: RegistryPlane, program: Program, fleet: str
) -> None:
    said = plane.apply(a_rule("bad", a_spec(when={"fact": {"name": "no.suchFact"}})))
    assert said.returncode == 1
    assert 'admission webhook "noderemediers.kubenode.io" denied the request' in said.stderr
    assert "spec.when.fact.name: 'no.suchFact' is no built-in fact" in said.stderr


def test_a_rule_that_lint_calls_wrong_is_refused(
    plane: RegistryPlane, program: Program, fleet: str
) -> None:
    spec = a_spec(when={"event": {"reason": "Oops"}}, ladder=[ISOLATE])
    said = plane.apply(a_rule("unproven", spec))
    assert said.returncode == 1 and "(unproven-repair)" in said.stderr


def test_a_cycle_over_stored_rules_is_refused(
    plane: RegistryPlane, program: Program, fleet: str
) -> None:
    base = a_rule("base", an_infer("test.base", {"condition": {"type": "Never"}}))
    assert plane.apply(base).returncode == 0
    above = a_rule("above", an_infer("test.above", {"fact": {"name": "test.base"}}))
    _until_applied(plane, above)
    base["spec"]["when"] = {"fact": {"name": "test.above"}}
    deadline = time.monotonic() + 30
    while plane.apply(base, "--dry-run=server").returncode == 0:  # until the cache has `above`
        assert time.monotonic() < deadline
    said = plane.apply(base)
    assert said.returncode == 1 and "cycle" in said.stderr


def _until_applied(plane: RegistryPlane, rule: dict[str, Any]) -> None:
    deadline = time.monotonic() + 30
    while (said := plane.apply(rule)).returncode != 0:
        assert time.monotonic() < deadline, said.stderr
        time.sleep(0.1)


def test_a_rule_that_would_match_too_much_of_the_fleet_needs_its_authors_word(
    plane: RegistryPlane, program: Program, fleet: str
) -> None:
    said = plane.apply(a_rule("unsafe", sick(fleet)))
    assert said.returncode == 1
    assert "would match 12 of" in said.stderr and f'set annotation {ACCEPT}: "12"' in said.stderr
    meant = a_rule("unsafe", sick(fleet), **{ACCEPT: "12"})
    assert plane.apply(meant, "--dry-run=server").returncode == 0
    assert _events(plane, "unsafe") == [], "a dry run has no side effect"
    assert plane.apply(meant).returncode == 0
    deadline = time.monotonic() + 30
    while not (told := _events(plane, "unsafe")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert told[0].startswith("admin accepted with"), told
    stored = plane.rule("unsafe")["metadata"]["annotations"]
    assert stored["kubenode.io/author"] == stored["kubenode.io/accepted-by"] == "admin"
    plane.cp.kubectl("delete", "noderemedier", "unsafe")


def _events(plane: RegistryPlane, name: str) -> list[str]:
    selector = f"involvedObject.name={name},reason=BlastRadiusAccepted"
    found = plane.cp.kubectl("get", "events", "--field-selector", selector, "-o", "json")
    return [item["message"] for item in json.loads(found.stdout)["items"]]


def test_switching_a_rule_off_asks_nobody(
    plane: RegistryPlane, program: Program, fleet: str
) -> None:
    said = plane.apply(a_rule("off", sick(fleet, mode="Off")))
    assert said.returncode == 0 and "Warning" not in said.stderr
    plane.until_status("off", phase="Off")


def test_a_job_of_no_rule_is_its_makers_and_that_is_in_the_audit_file(
    plane: RegistryPlane, program: Program, fleet: str, audit: Path
) -> None:
    """The operator's own flags; words of every kind are in test_words. A review that was made up is
    answered, and nobody's word.
    """
    assert _made_up_review(plane)["response"]["allowed"]
    assert _made_up_acceptance(plane, fleet)["response"]["allowed"]
    name = f"by-hand-{fleet}"
    job = {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "RemedyOperationJob",
        "metadata": {"name": name, "annotations": {"kubenode.io/started-by": "somebody else"}},
        "spec": {
            "nodeName": "nowhere",
            "agent": "nowhere",
            "trigger": {"firstTrue": stamp()},
            "ladder": [{"name": "a", "steps": [{"cordon": {}}]}],
        },
    }
    said = plane.cp.kubectl("create", "-f", "-", "-o", "json", stdin=json.dumps(job))
    made = json.loads(said.stdout)["metadata"]["annotations"]
    assert made == {"kubenode.io/started-by": "admin"}
    deadline = time.monotonic() + 30
    while not (lines := _audited(audit, name)):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert (lines[0]["who"], lines[0]["what"], lines[0]["by"]) == ("admin", "Start", "remedy")
    assert "mallory" not in audit.read_text(), "a review is no evidence"
    assert _events(plane, "made-up") == [], "a review is no evidence"
    plane.cp.kubectl("delete", "remedyoperationjob", name)


def _made_up_acceptance(plane: RegistryPlane, group: str) -> dict[str, Any]:
    """Answer to a review that no API server sent: mallory accepts a blast radius."""
    new = a_rule("made-up", sick(group), **{ACCEPT: "12"})
    return _posted(plane, "/validate/noderemediers", a_review(new).replace(b"alice", b"mallory"))


def _made_up_review(plane: RegistryPlane) -> dict[str, Any]:
    """Answer of the webhook to a review that no API server sent, in mallory's name."""
    waits = {"metadata": {"name": "n1-0"}, "status": {"phase": "AwaitingApproval"}}
    old = {**waits, "spec": {"nodeName": "n1", "approvals": []}}
    new = {**waits, "spec": {"nodeName": "n1", "approvals": [{"decision": "Approve"}]}}
    raw = a_review(new, old, resource="remedyoperationjobs").replace(b"alice", b"mallory")
    return _posted(plane, decision_signer.PATH, raw)


def _posted(plane: RegistryPlane, path: str, raw: bytes) -> dict[str, Any]:
    asked = urllib.request.Request(f"https://127.0.0.1:{plane.port}{path}", raw)
    asked.add_header("Content-Type", "application/json")
    unchecked = ssl._create_unverified_context()
    with urllib.request.urlopen(asked, timeout=10, context=unchecked) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def _audited(path: Path, job: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [line for line in lines if line.get("job") == job]


def test_a_large_rule_is_refused_by_the_server_before_or_by_us_with_a_sentence(
    plane: RegistryPlane, program: Program, fleet: str
) -> None:
    leaves = [{"condition": {"type": "T", "message": "x" * 1000}} for _ in range(16)]
    spec = a_spec(when={"any": [{"all": leaves} for _ in range(16)]})
    said = plane.apply(a_rule("large", spec), "--server-side")
    assert said.returncode in (0, 1)
    assert "context deadline" not in said.stderr and "EOF" not in said.stderr
