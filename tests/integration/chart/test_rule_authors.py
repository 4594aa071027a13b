"""Which group may use which steps on which nodes: the chart's policy on a real API server.

No program of ours runs here: what the API server refuses alone is refused also while they are down.
"""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from support.control_plane import ControlPlane
from support.rule_authors import (
    EXAMPLE,
    POOL_B,
    RULES,
    Author,
    AuthorPlane,
    a_rule,
    signed,
    steps,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

RESTART = {"agent": {"action": "RestartUnit", "unit": "containerd.service"}}
NARROW = {
    "narrow.groups": "narrow",
    "narrow.modes": "Enforce",
    "narrow.steps": "agent/RestartUnit/kubelet.service\nagent/RunScript/tidy\nmigrate/Delete",
    "narrow.nodes": "pool=b\ntopology.kubernetes.io/zone=z1",
    "narrow.priority": "600",
    "typo.groups": "typo",
    "typo.modes": "Enforce",
    "typo.stepz": "*",
    "typo.nodes": "*",
    "badpriority.groups": "badpriority",
    "badpriority.modes": "*",
    "badpriority.steps": "*",
    "badpriority.nodes": "*",
    "badpriority.priority": "high",
}


@pytest.fixture(scope="module")
def world(control_plane: ControlPlane) -> Iterator[AuthorPlane]:
    with AuthorPlane(control_plane, {**EXAMPLE, **NARROW}) as found:
        yield found


@pytest.fixture(scope="module")
def anna(world: AuthorPlane) -> Author:
    return world.author("anna", "team-a")


@pytest.fixture(scope="module")
def bela(world: AuthorPlane) -> Author:
    return world.author("bela", "team-b")


@pytest.fixture(scope="module")
def bob(world: AuthorPlane) -> Author:
    return world.author("bob", "team-b-leads")


def test_a_user_without_a_grant_writes_no_rule(world: AuthorPlane) -> None:
    nina = world.author("nina", "team-c")
    said = nina.refusal(signed(nina, "r", {}))
    assert 'request.userInfo.username: "nina"' in said and "ask an administrator" in said


def test_team_a_may_only_dry_run(anna: Author) -> None:
    assert anna.refusal(signed(anna, "r", steps({"reboot": {}}))) == ""
    for mode in ("Enforce", "Approve"):
        said = anna.refusal(signed(anna, "r", {"mode": mode}))
        assert f'spec.mode: "{mode}"' in said and "(team-a) allow DryRun: write one of" in said


def test_a_rule_that_infers_is_written_in_enforce(anna: Author) -> None:
    infer = {"mode": None, "ladder": None, "infer": {"fact": "my.fact"}}
    rule = signed(anna, "r", infer)
    rule["spec"] = {key: value for key, value in rule["spec"].items() if value is not None}
    assert 'spec.mode: "Enforce"' in anna.refusal(rule)


@pytest.mark.parametrize(
    "nodes",
    [
        {"all": True},
        {"selector": {"matchLabels": {"pool": "a"}}},
        {"selector": {"matchLabels": {"pool2": "b"}}},
        {"selector": {"matchExpressions": [{"key": "pool", "operator": "Exists"}]}},
        {"selector": {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["b"]}]}},
    ],
    ids=json.dumps,
)
def test_team_b_writes_rules_for_its_pool_alone(bela: Author, nodes: dict[str, Any]) -> None:
    said = bela.refusal(signed(bela, "r", {"mode": "Enforce", "nodes": nodes}))
    assert "spec.nodes.selector.matchLabels" in said
    assert "are for nodes with pool=b: write these labels there" in said


def test_further_labels_narrow_a_grants_nodes(bela: Author) -> None:
    nodes = {"selector": {"matchLabels": {"pool": "b", "disk": "nvme"}}}
    assert bela.refusal(signed(bela, "r", {"mode": "Enforce", "nodes": nodes})) == ""


@pytest.mark.parametrize(
    "step",
    [{"cordon": {}}, {"uncordon": {}}, {"migrate": {}}, RESTART],
    ids=json.dumps,
)
def test_team_b_uses_its_steps(bela: Author, step: dict[str, Any]) -> None:
    spec = {"mode": "Enforce", "nodes": POOL_B, **steps(step)}
    assert bela.refusal(signed(bela, "r", spec)) == ""


@pytest.mark.parametrize(
    ("step", "named"),
    [
        ({"reboot": {}}, "reboot"),
        ({"replace": {}}, "replace"),
        ({"fence": {}}, "fence"),
        ({"label": {"key": "kubenode.io/suspect"}}, "label"),
        ({"annotate": {"key": "kubenode.io/suspect"}}, "annotate"),
        ({"webhook": {"receiver": "r"}}, "webhook"),
        ({"createObject": {"template": "t"}}, "createObject"),
        ({"migrate": {"onTimeout": "Delete"}}, "migrate/Delete"),
        (
            {"migrate": {"podPolicies": [{"mode": "DeleteAfter", "after": "1m"}]}},
            "migrate/Delete",
        ),
        (
            {"agent": {"action": "StopUnit", "unit": "auditd.service"}},
            "agent/StopUnit/auditd.service",
        ),
        ({"agent": {"action": "RunScript", "script": "wipe"}}, "agent/RunScript/wipe"),
    ],
    ids=json.dumps,
)
def test_team_b_uses_no_other_step(bela: Author, step: dict[str, Any], named: str) -> None:
    said = bela.refusal(
        signed(bela, "r", {"mode": "Enforce", "nodes": POOL_B, **steps({"cordon": {}}, step)})
    )
    assert f'spec.ladder[name=act].steps: "{named}"' in said
    assert "allow cordon, uncordon, migrate, agent/RestartUnit, notify: write one of these" in said


def test_a_check_of_a_proof_is_a_step_too(bela: Author) -> None:
    check = {"agent": {"action": "RunCheck", "check": "deep"}}
    rung = {"name": "act", "steps": [{"cordon": {}}], "verify": {"checks": [check]}}
    said = bela.refusal(signed(bela, "r", {"nodes": POOL_B, "ladder": [rung]}))
    assert '"agent/RunCheck/deep"' in said


def test_receivers_of_a_rule_need_the_step_notify(world: AuthorPlane) -> None:
    nora = world.author("nora", "narrow")
    nodes = {"selector": {"matchLabels": {"pool": "b", "topology.kubernetes.io/zone": "z1"}}}
    spec = {"mode": "Enforce", "nodes": nodes, "notify": ["pager"]}
    said = nora.refusal(signed(nora, "r", spec))
    assert 'spec.notify: "notify"' in said and '"cordon"' in said


def test_a_grant_may_name_units_scripts_several_labels_and_a_priority(world: AuthorPlane) -> None:
    nick = world.author("nick", "narrow")
    nodes = {"selector": {"matchLabels": {"pool": "b", "topology.kubernetes.io/zone": "z1"}}}
    kubelet = {"agent": {"action": "RestartUnit", "unit": "kubelet.service"}}
    script = {"agent": {"action": "RunScript", "script": "tidy"}}
    spec = {"mode": "Enforce", "priority": 600, "nodes": nodes}
    spec |= steps(kubelet, script, {"migrate": {"onTimeout": "Delete"}})
    assert nick.refusal(signed(nick, "r", spec)) == ""
    said = nick.refusal(signed(nick, "r", {**spec, "priority": 601}))
    assert "spec.priority: 601" in said and "allow at most 600: lower it" in said
    assert "spec.nodes" in nick.refusal(signed(nick, "r", {**spec, "nodes": POOL_B}))
    assert '"agent/RestartUnit/containerd.service"' in nick.refusal(
        signed(nick, "r", {**spec, **steps(RESTART)})
    )


@pytest.mark.parametrize("group", ["typo", "badpriority"])
def test_a_grant_that_cannot_be_read_allows_nothing(world: AuthorPlane, group: str) -> None:
    tom = world.author(f"tom-{group}", group)
    assert "your grants" in tom.refusal(signed(tom, "r", {"mode": "Enforce"}))


def test_grants_are_not_joined(world: AuthorPlane) -> None:
    """The modes of one grant and the nodes of another allow nothing together."""
    both = world.author("both", "team-a", "team-b")
    assert both.refusal(signed(both, "r", {"mode": "DryRun"})) == ""
    assert "spec.nodes" in both.refusal(signed(both, "r", {"mode": "Enforce"}))


def test_no_team_takes_over_a_rule_of_another(world: AuthorPlane, bela: Author) -> None:
    world.cp.kubectl("apply", "-f", "-", stdin=json.dumps(
        a_rule("theirs", {"nodes": {"selector": {"matchLabels": {"pool": "a"}}}},
               **{"kubenode.io/author": "admin"})))  # fmt: skip
    mine = {"spec": {"nodes": POOL_B}, "metadata": {"annotations": {"kubenode.io/author": "bela"}}}
    said = bela.patch("theirs", mine)
    assert 'before the change "pool=a"' in said


def test_switching_off_and_deleting_is_left_to_rbac(world: AuthorPlane, anna: Author) -> None:
    world.cp.kubectl("apply", "-f", "-", stdin=json.dumps(
        a_rule("running", {"mode": "Enforce"}, **{"kubenode.io/author": "admin"})))  # fmt: skip
    nobody = world.author("noah")
    assert "no grant" in nobody.patch("running", {"spec": {"mode": "DryRun"}})
    assert "no grant" in nobody.patch("running", {"spec": {"mode": "Off", "priority": 1}})
    assert nobody.patch("running", {"spec": {"mode": "Off"}}) == ""
    assert 'spec.mode: "Enforce"' in anna.patch("running", {"spec": {"mode": "Enforce"}})
    assert nobody.ask("DELETE", f"{RULES}/running")[0] == 200


def test_the_library_and_administrators_write_any_rule(world: AuthorPlane) -> None:
    rule = a_rule("wide", {"mode": "Enforce", "priority": 1000, **steps({"reboot": {}})},
                  **{"kubenode.io/author": "admin"})  # fmt: skip
    code, said = world.admin.ask("POST", RULES, rule)
    assert code == 201, said


# -- the blast radius is accepted by another person -----------------------------------------------


@pytest.fixture
def rule(world: AuthorPlane, bela: Author) -> Iterator[str]:
    """A rule that bela wrote."""
    written = signed(bela, "radius", {"nodes": POOL_B})
    assert bela.refusal(written, dry_run=False) == ""
    yield "radius"
    world.cp.kubectl("delete", "noderemedier", "radius")


def test_no_author_accepts_the_blast_radius_of_the_own_rule(rule: str, bela: Author) -> None:
    said = bela.annotate(rule, accept_blast_radius="12", accepted_by="bela")
    assert 'metadata.annotations[kubenode.io/accept-blast-radius]: "12"' in said
    assert '"bela" is the author of the rule: have another person set it' in said
    with_birth = signed(bela, "other", {"nodes": POOL_B},
                        **{"kubenode.io/accept-blast-radius": "12"})  # fmt: skip
    assert "leave it out" in bela.refusal(with_birth)


def test_another_person_accepts_and_is_named(world: AuthorPlane, rule: str, bob: Author) -> None:
    assert 'write "bob"' in bob.annotate(rule, accept_blast_radius="12")
    assert 'write "bob"' in bob.annotate(rule, accept_blast_radius="12", accepted_by="zoe")
    assert bob.annotate(rule, accept_blast_radius="12", accepted_by="bob") == ""


def test_an_acceptance_holds_for_the_rule_as_it_is(rule: str, bela: Author, bob: Author) -> None:
    """A change of the mode keeps it; any other change takes it away; nobody raises it alone."""
    assert bob.annotate(rule, accept_blast_radius="12", accepted_by="bob") == ""
    said = bela.annotate(rule, accept_blast_radius="500", accepted_by="bela")
    assert "is the author" in said
    assert bela.patch(rule, {"spec": {"mode": "Enforce"}}) == ""
    wider = {"spec": {"when": {"condition": {"type": "Other"}}}}
    assert "leave it out" in bela.patch(rule, wider)
    removed = {"kubenode.io/accept-blast-radius": None, "kubenode.io/accepted-by": None}
    assert bela.patch(rule, {**wider, "metadata": {"annotations": removed}}) == ""


def test_the_author_is_whoever_changed_the_spec_last(rule: str, bela: Author, bob: Author) -> None:
    change = {"spec": {"cooldown": "1h"}}
    assert 'metadata.annotations[kubenode.io/author]: "bela"' in bob.patch(rule, change)
    assert (
        bob.patch(rule, {**change, "metadata": {"annotations": {"kubenode.io/author": "bob"}}})
        == ""
    )
    assert "is the author" in bob.annotate(rule, accept_blast_radius="3", accepted_by="bob")
    assert bela.annotate(rule, accept_blast_radius="3", accepted_by="bela") == ""


@pytest.mark.parametrize("author", ["bob", "zoe", None])
def test_no_author_puts_another_in_its_place(rule: str, bela: Author, author: str | None) -> None:
    assert "kubenode.io/author" in bela.annotate(rule, author=author)


def test_a_rule_without_a_recorded_author_is_accepted_by_nobody(
    world: AuthorPlane, bela: Author
) -> None:
    unsigned = a_rule("unsigned", {"nodes": POOL_B})
    assert 'write "bela"' in bela.refusal(unsigned)


def test_the_largest_rule_under_many_grants_is_judged(world: AuthorPlane) -> None:
    """The API server bounds the cost of a policy; a rule beyond it would be refused."""
    many = {
        f"many-{n}.{field}": text
        for n in range(50)
        for field, text in {
            "groups": "\n".join(f"group-{n}-{m}" for m in range(20)) + "\nmany",
            "modes": "DryRun\nEnforce",
            "steps": "\n".join(f"agent/RestartUnit/unit-{m}.service" for m in range(40))
            + "\ncordon",
            "nodes": "pool=b",
        }.items()
    }
    world.grant({**EXAMPLE, **NARROW, **many})
    mia = world.author("mia", "many", *(f"other-{n}" for n in range(50)))
    units = [{"agent": {"action": "RestartUnit", "unit": f"unit-{m}.service"}} for m in range(16)]
    ladder = [{"name": f"r{n}", "steps": units} for n in range(8)]
    rule = signed(mia, "large", {"mode": "Enforce", "nodes": POOL_B, "ladder": ladder})
    deadline = time.monotonic() + 60
    while "no grant" in (said := mia.refusal(rule)):
        assert time.monotonic() < deadline
        time.sleep(0.3)
    assert said == ""
    ladder[-1] = {"name": "last", "steps": [*units[:-1], {"reboot": {}}]}
    assert 'spec.ladder[name=last].steps: "reboot"' in mia.refusal(rule)
    world.grant({**EXAMPLE, **NARROW})
