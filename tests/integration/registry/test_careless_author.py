"""A careless rule author: every act is refused, with the field, its value and what to write.

Findings 4 and 15 of the security review. A real kube-apiserver with the chart's policies, the
operator as a process with its webhook, and authors with grants.
"""

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from support.registry_plane import RegistryPlane
from support.rule_authors import EXAMPLE, POOL_B, Author, AuthorPlane, a_rule, signed, steps

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

GRANTS = {
    **EXAMPLE,
    "trusted.groups": "trusted",
    "trusted.modes": "*",
    "trusted.steps": "*",
    "trusted.nodes": "*",
    "trusted.priority": "1000",
}
MIB = 1 << 20
POOL = "careless"
ACCEPT = "kubenode.io/accept-blast-radius"


@pytest.fixture(scope="module")
def world(plane: RegistryPlane) -> Iterator[AuthorPlane]:
    """Twenty nodes, twelve of them sick; grants, policies and the webhook."""
    nodes = [a_node(n, "True" if n < 12 else "False") for n in range(20)]
    listed = {"apiVersion": "v1", "kind": "List", "items": nodes}
    plane.cp.kubectl("create", "-f", "-", stdin=json.dumps(listed))
    plane.hook("Fail")
    try:
        with plane.operator(), AuthorPlane(plane.cp, GRANTS) as found:
            yield found
    finally:
        plane.unhook()
        plane.cp.kubectl("delete", "nodes", "-l", f"careless={POOL}")


def a_node(number: int, status: str) -> dict[str, Any]:
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    condition = {
        "type": "Sick",
        "status": status,
        "reason": "Test",
        "lastHeartbeatTime": at,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    labels = {"careless": POOL, "pool": "b" if number % 2 else "a"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"careless-{number}", "labels": labels},
        "status": {"conditions": [condition]},
    }


@pytest.fixture(scope="module")
def trusted(world: AuthorPlane) -> Author:
    """RBAC and grants allow everything: what refuses is the schema or the webhook."""
    return world.author("trudy", "trusted")


@pytest.fixture(scope="module")
def bela(world: AuthorPlane) -> Author:
    return world.author("bela-careless", "team-b")


def agent(action: str, **more: Any) -> dict[str, Any]:
    return steps({"agent": {"action": action, **more}})


def when(leaf: str, **fields: Any) -> dict[str, Any]:
    return {"when": {leaf: fields}}


def wrong(author: Author, spec: Mapping[str, Any], field: str, value: str, remedy: str) -> None:
    said = author.refusal(signed(author, "careless", spec))
    for part in (field, value, remedy):
        assert part in said, f"{part!r} is not in {said[:1500]!r}"
    assert len(said) < 8000, "nobody reads more"


# -- finding 4: keys of Nodes ---------------------------------------------------------------------

KEYS = [
    "kubernetes.io/os",
    "kubernetes.io/hostname",
    "node.kubernetes.io/exclude-from-external-load-balancers",
    "node-restriction.kubernetes.io/team",
    "node-role.kubernetes.io/control-plane",
    "topology.kubernetes.io/zone",
    "cluster-autoscaler.kubernetes.io/scale-down-disabled",
    "cluster.x-k8s.io/machine",
    "karpenter.sh/do-not-disrupt",
    "node.k8s.aws/id",
    "kubenode.io/machine",
    "kubenode.io/bmc",
    "kubenode.io/cordoned-by",
    "KUBENODE.IO/machine",
]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("step", ["label", "annotate"])
def test_no_key_of_kubelet_or_of_other_operators(trusted: Author, step: str, key: str) -> None:
    field = f"spec.ladder[0].steps[0].{step}.key"
    for mode in ("Enforce", "DryRun"):
        spec = {"mode": mode, **steps({step: {"key": key, "value": "x"}})}
        wrong(trusted, spec, field, key, "use a key such as kubenode.io/suspect")


def test_no_key_that_nobody_listed(trusted: Author) -> None:
    spec = steps({"label": {"key": "example.com/pool", "value": "x"}})
    wrong(trusted, spec, "label.key", "example.com/pool", "let an administrator add the key")


# -- finding 15: units, scripts, modules ----------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "named"),
    [
        ({"action": "StopUnit", "unit": "auditd.service"}, "agent/StopUnit/auditd.service"),
        ({"action": "StopUnit", "unit": "falco.service"}, "agent/StopUnit/falco.service"),
        ({"action": "StopUnit", "unit": "containerd.service"}, "agent/StopUnit/containerd"),
        ({"action": "StartUnit", "unit": "debug-shell.service"}, "agent/StartUnit/debug-shell"),
        ({"action": "RunScript", "script": "anything"}, "agent/RunScript/anything"),
        ({"action": "LoadModule", "params": {"module": "evil"}}, "agent/LoadModule"),
        ({"action": "SetSysctl", "params": {"name": "kernel.panic"}}, "agent/SetSysctl"),
        ({"action": "KillProcess", "params": {"name": "falco"}}, "agent/KillProcess"),
    ],
    ids=lambda found: json.dumps(found)[:60],
)
def test_no_act_on_a_host_beyond_the_teams_grant(
    bela: Author, step: dict[str, Any], named: str
) -> None:
    spec = {"mode": "Enforce", "nodes": POOL_B, **steps({"agent": step})}
    wrong(bela, spec, "spec.ladder[name=act].steps", named, "ask for a grant")


@pytest.mark.parametrize(
    "unit",
    ["kubelet", "../../etc/evil.service", "/bin/sh.service", "a b.service", "$(id).service",
     "x.service;reboot", "x\n.service", "*.service", ".mount/..", "a" * 300 + ".service"],
    ids=lambda unit: unit[:20],
)  # fmt: skip
def test_no_unit_that_is_none(trusted: Author, unit: str) -> None:
    spec = agent("RestartUnit", unit=unit)
    remedy = "should match" if len(unit) < 256 else "255"
    shown = json.dumps(unit)[:60].rstrip('"')
    wrong(
        trusted, spec, "spec.ladder[0].steps[0].agent.unit", shown if len(unit) < 60 else "", remedy
    )


@pytest.mark.parametrize(
    "name", ["../../bin/sh", "/bin/sh", "a;b", "a b", "$(id)", ".", "..", "a\n"]
)
@pytest.mark.parametrize(("action", "field"), [("RunScript", "script"), ("RunCheck", "check")])
def test_no_script_or_check_by_path(trusted: Author, action: str, field: str, name: str) -> None:
    spec = agent(action, **{field: name})
    shown = json.dumps(name).strip('"')
    wrong(trusted, spec, f"spec.ladder[0].steps[0].agent.{field}", shown, "should match")


@pytest.mark.parametrize(
    ("action", "params", "remedy"),
    [
        ("LoadModule", {"module": "../../evil.ko"}, "module"),
        ("LoadModule", {"module": "x options=1"}, "module"),
        ("LoadModule", {}, "module"),
        ("SetSysctl", {"name": "../../etc/passwd", "value": "1"}, "name"),
        ("RemountFilesystem", {"mountPoint": "relative"}, "mount"),
        ("CleanDisk", {"target": "/"}, "target"),
        ("KillProcess", {"pid": "1"}, "params"),
    ],
    ids=lambda found: json.dumps(found)[:40],
)
def test_no_parameter_that_the_host_could_not_take(
    trusted: Author, action: str, params: dict[str, str], remedy: str
) -> None:
    said = trusted.refusal(signed(trusted, "careless", agent(action, params=params)))
    assert "spec.ladder[0].steps[0].agent" in said and remedy in said


# -- which nodes ----------------------------------------------------------------------------------


def test_no_rule_for_everything_by_an_empty_selector(trusted: Author) -> None:
    empty: list[dict[str, Any]] = [{"selector": {}}, {"selector": {"matchLabels": {}}}, {}]
    for nodes in empty:
        said = trusted.refusal(signed(trusted, "careless", {"nodes": nodes}))
        assert "spec.nodes" in said, (nodes, said)
        assert "all: true" in said or "matchLabels" in said


@pytest.mark.parametrize(
    "ladder",
    [
        steps({"notify": {}}),
        steps({"label": {"key": "kubenode.io/suspect"}}),
        steps({"cordon": {}}),
    ],
    ids=["notify", "label", "cordon"],
)
def test_no_rule_that_acts_on_more_than_a_tenth(trusted: Author, ladder: dict[str, Any]) -> None:
    spec = {"mode": "Enforce", **ladder}
    wrong(trusted, spec, "spec.when", "would match 12 of", "try it with `mode: DryRun`")


def test_no_word_of_the_author_makes_it_safe(trusted: Author) -> None:
    rule = signed(trusted, "careless", {"mode": "Enforce"}, **{ACCEPT: "12"})
    said = trusted.refusal(rule)
    assert f'metadata.annotations[{ACCEPT}]: "12"' in said and "have another person set it" in said


@pytest.mark.parametrize("word", ["-1", "all", "100%", "1e9", "99999999999", "12 ", "", "١٢"])
def test_no_acceptance_that_is_no_number(trusted: Author, world: AuthorPlane, word: str) -> None:
    """Written by an administrator, whom the webhook asks for a number all the same."""
    rule = a_rule("careless", {"mode": "Enforce"}, **{ACCEPT: word})
    code, said = world.admin.ask(
        "POST", "/apis/kubenode.io/v1alpha1/noderemediers?dryRun=All", rule
    )
    assert code == 422 or code == 403, said
    assert ACCEPT in said


def test_a_blast_radius_is_accepted_in_the_documented_way(
    plane: RegistryPlane, world: AuthorPlane, bela: Author
) -> None:
    """docs/rule-authors.md: nobody writes a name by hand, the webhook does."""
    bob = world.author("bob-careless", "team-b-leads")
    name, rule = "accepted", a_rule("accepted", {"nodes": POOL_B})
    assert bela.refusal(rule, dry_run=False) == ""
    enforce = {"spec": {"mode": "Enforce"}}
    assert "would match 6 of" in bela.patch(name, enforce)
    assert "is the author of the rule" in bela.annotate(name, accept_blast_radius="6")
    assert bob.annotate(name, accept_blast_radius="6", author="mallory") == ""
    stored = plane.rule(name)["metadata"]["annotations"]
    assert stored["kubenode.io/author"] == "bela-careless"
    assert stored["kubenode.io/accepted-by"] == "bob-careless"
    assert bela.patch(name, enforce) == ""
    deadline = time.monotonic() + 30
    while not (told := acceptances(plane, name)):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert told[0].startswith("bob-careless accepted with kubenode.io/accept-blast-radius: 6 that")
    assert "leave it out" in bela.patch(name, {"spec": {"cooldown": "1h"}})
    plane.cp.kubectl("delete", "noderemedier", name)


def acceptances(plane: RegistryPlane, rule: str) -> list[str]:
    selector = f"involvedObject.name={rule},reason=BlastRadiusAccepted"
    found = plane.cp.kubectl("get", "events", "--field-selector", selector, "-o", "json")
    return [item["message"] for item in json.loads(found.stdout)["items"]]


# -- texts, numbers, durations --------------------------------------------------------------------


@pytest.mark.parametrize("length", ["-5m", "5", "5 m", "1d", "", "NaN", "1e9h", "9999999999999h"])
@pytest.mark.parametrize("field", ["cooldown", "groupWait", "startupGrace"])
def test_no_duration_that_is_negative_or_endless(trusted: Author, field: str, length: str) -> None:
    remedy = "ten years" if length.startswith("999") else "like 90s, 10m or 1h30m"
    wrong(trusted, {field: length}, f"spec.{field}", length, remedy)


@pytest.mark.parametrize(
    ("spec", "field", "value"),
    [
        ({"priority": -1}, "spec.priority", "-1"),
        ({"priority": 10**9}, "spec.priority", "1000000000"),
        ({"attempts": {"max": 0}}, "spec.attempts.max", "0"),
        ({"attempts": {"max": 10**6}}, "spec.attempts.max", "1000000"),
        ({"mode": "Yes"}, "spec.mode", "Yes"),
        ({"onGiveUp": "Never"}, "spec.onGiveUp", "Never"),
        ({"faultClass": "Kernel Panic!"}, "spec.faultClass", "Kernel Panic!"),
        ({"notify": ["r"] * 300}, "spec.notify", "16"),
        ({"ladder": []}, "spec.ladder", "1"),
        (steps(*[{"cordon": {}}] * 17), "spec.ladder[0].steps", "16"),
    ],
    ids=lambda found: json.dumps(found)[:40],
)
def test_no_number_or_word_out_of_range(
    trusted: Author, spec: dict[str, Any], field: str, value: str
) -> None:
    wrong(trusted, spec, field, value, "")


@pytest.mark.parametrize(
    "pattern", ["(", "[", "(a)\\1", "(?=a)", "a{1000}{1000}", "((a{99}){99}){99}", "*"]
)
def test_no_expression_that_re2_does_not_take(trusted: Author, pattern: str) -> None:
    for leaf in (
        when("condition", type="Sick", message=pattern),
        when("event", reason="Oops", message=pattern),
        when("alert", name=pattern),
    ):
        wrong(trusted, leaf, "spec.when.", repr(pattern)[1:-1], "RE2")


def test_expressions_that_explode_elsewhere_are_linear_here(trusted: Author) -> None:
    spec = when("condition", type="Sick", message="^(a+)+$", **{"for": "1m"})
    assert trusted.refusal(signed(trusted, "careless", spec)) == ""


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (steps({"notify": {"message": "x" * MIB}}), "spec.ladder[0].steps[0].notify.message"),
        (steps({"annotate": {"key": "kubenode.io/suspect", "value": "x" * MIB}}), "annotate.value"),
        (agent("RunScript", script="x" * MIB), "spec.ladder[0].steps[0].agent.script"),
        (agent("CleanDisk", params={"target": "x" * MIB}), "spec.ladder[0].steps[0].agent.params"),
        (when("condition", type="x" * MIB), "spec.when.condition.type"),
        (when("condition", type="Sick", message="x" * MIB), "spec.when.condition.message"),
        ({"faultClass": "x" * MIB}, "spec.faultClass"),
        ({"notify": ["x" * MIB]}, "spec.notify[0]"),
    ],
    ids=lambda found: json.dumps(found)[:30] if isinstance(found, str) else "",
)
def test_no_text_of_a_mebibyte(trusted: Author, spec: dict[str, Any], field: str) -> None:
    said = trusted.refusal(signed(trusted, "careless", spec))
    assert field in said and "may not be" in said, said[:500]
    assert len(said) < 8000, "the text is not said back"


def test_no_expression_of_any_depth(trusted: Author) -> None:
    deep: dict[str, Any] = {"condition": {"type": "Sick"}}
    for _ in range(200):
        deep = {"all": [deep]}
    said = trusted.refusal(signed(trusted, "careless", {"when": deep}))
    assert "spec.when" in said, said[:500]


# -- what a rule says -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "field", "value", "remedy"),
    [
        (steps({"exec": {"command": "sh"}}), "spec.ladder[0].steps[0]", "not one act", "write one"),
        (
            steps({"cordon": {}, "reboot": {}}),
            "spec.ladder[0].steps[0]",
            "not one act",
            "write one",
        ),
        (agent("RunCommand"), "agent.action", "RunCommand", "supported values"),
        (
            {"ladder": [{"name": "a", "disruption": "None", "steps": [{"reboot": {}}]}]},
            "spec.ladder[0].disruption",
            "lower than what the steps",
            "raise it",
        ),
        (when("fact", name="no.suchFact"), "spec.when.fact.name", "no.suchFact", "built-in fact"),
        (
            {"infer": {"fact": "node.ready"}, "ladder": None},
            "spec.infer.fact",
            "node.ready",
            "built-in fact",
        ),
        (
            {**when("event", reason="Oops"), "mode": "Enforce", **steps({"cordon": {}})},
            "spec.ladder[0]",
            "unproven-repair",
            "",
        ),
    ],
    ids=lambda found: json.dumps(found)[:40],
)
def test_no_rule_that_cannot_be_meant(
    trusted: Author, spec: dict[str, Any], field: str, value: str, remedy: str
) -> None:
    rule = signed(trusted, "careless", spec)
    rule["spec"] = {key: found for key, found in rule["spec"].items() if found is not None}
    said = trusted.refusal(rule)
    for part in (field, value, remedy):
        assert part in said, f"{part!r} is not in {said[:1500]!r}"


def test_nothing_of_this_was_stored(world: AuthorPlane, trusted: Author) -> None:
    assert trusted.refusal(signed(trusted, "careless", {}), dry_run=False) == ""
    assert trusted.ask("DELETE", "/apis/kubenode.io/v1alpha1/noderemediers/careless")[0] == 200
