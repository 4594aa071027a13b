"""The rules that ship: each is valid, explains itself, and keeps what the library promises."""

import json
from pathlib import Path

import pytest

import rules
from kubenode.api.v1alpha1 import Disruption, Mode
from kubenode.api.v1alpha1.leaves import ConditionLeaf
from kubenode.cli.library import FOLDER, packs
from remedy.job.steps.table import unsupported
from rules.lint import LintSeverity, lint
from rules.program import RuleVersion, compile_program
from simulation.demo.detectors import CHECKS

ROOT = Path(rules.__file__).parents[1]
BOOKS = ROOT / "docs" / "runbooks"
PACKS = packs()
RULES = {rule.metadata.name: rule for pack in PACKS.values() for rule in pack}
PACK_OF = {rule.metadata.name: name for name, pack in PACKS.items() for rule in pack}
LADDERS = {name: rule for name, rule in RULES.items() if rule.spec.ladder is not None}
SECTIONS = ("How sure it is", "What KubeNode does", "How to look by hand", "Sources")
FOR_PEOPLE = ("How to stop it", "When a person is needed")
HOST_EVENTS = "cloud"
"""The pack whose rules act on planned events, for which `maintenance.active` is no guard."""
PLANNED = {"reboot-required", "reboot-required-control-plane"}
"""Rules of planned work, which are dry runs until a person enforces them."""
HEALED_IN_THE_DEMO = (
    "frequent-restarts",
    "hardware-error",
    "kernel-deadlock",
    "kubelet-unhealthy",
    "node-not-ready",
    "ntp-problem",
    "readonly-filesystem",
    "runtime-unhealthy",
    "task-hung",
)


def of_pack(pack: str) -> list[str]:
    """The rules of a pack that have a ladder."""
    return [rule.metadata.name for rule in PACKS[pack] if rule.spec.ladder is not None]


def test_the_library_is_as_large_as_it_says() -> None:
    assert len(RULES) >= 60
    assert sum(len(pack) for pack in PACKS.values()) == len(RULES)  # names are unique
    assert "" not in PACKS  # no rule outside a pack


def test_all_rules_compile_together() -> None:
    program = compile_program([RuleVersion(name, rule) for name, rule in RULES.items()])
    assert not program.rejected


def test_no_rule_has_an_error_that_lint_knows() -> None:
    found = [f for f in lint(list(RULES.values())) if f.severity is LintSeverity.ERROR]
    assert not found


def test_no_rule_needs_more_than_the_default_lists_of_keys_and_units() -> None:
    found = [f for f in lint(list(RULES.values())) if f.code.startswith("unlisted-")]
    assert not found


@pytest.mark.parametrize("pack", PACKS)
def test_a_pack_says_what_it_needs_and_lists_its_rules(pack: str) -> None:
    text = (FOLDER / pack / "README.md").read_text()
    assert text.startswith("# ")
    assert "Requires:" in text
    for rule in PACKS[pack]:
        assert f"[{rule.metadata.name}]" in text


@pytest.mark.parametrize("pack", PACKS)
def test_a_pack_compiles_with_those_that_it_requires(pack: str) -> None:
    needed = [name for name in PACKS if name == pack or _requires(pack, name)]
    program = compile_program(
        [RuleVersion(r.metadata.name, r) for name in needed for r in PACKS[name]],
    )
    assert not program.rejected


def _requires(pack: str, other: str) -> bool:
    readme = (FOLDER / pack / "README.md").read_text()
    line = next(line for line in readme.splitlines() if line.startswith("Requires:"))
    return f"`{other}`" in line


@pytest.mark.parametrize("pack", PACKS)
def test_a_rule_has_its_file_and_its_tests(pack: str) -> None:
    for rule in PACKS[pack]:
        _has_file_and_tests(rule.metadata.name)


def _has_file_and_tests(name: str) -> None:
    folder = FOLDER / PACK_OF[name]
    text = (folder / f"{name}.yaml").read_text()
    assert text.startswith("# ")
    assert "Sources:" in " ".join(text.replace("#", " ").split())
    tests = (folder / f"{name}.test.yaml").read_text()
    assert f"{name}.yaml" in tests
    assert tests.count("- name:") >= 2  # what must match, and what looks like it


@pytest.mark.parametrize("pack", PACKS)
def test_a_runbook_tells_a_person_what_to_do_at_night(pack: str) -> None:
    for rule in PACKS[pack]:
        _tells(rule.metadata.name)


def _tells(name: str) -> None:
    text = (BOOKS / f"{name}.md").read_text()
    assert text.startswith(f"# {name}\n")
    sections = SECTIONS if RULES[name].spec.ladder is None else (*SECTIONS, *FOR_PEOPLE)
    for section in sections:
        assert f"\n## {section}\n" in text
    assert "```sh\n" in text
    for rung in RULES[name].spec.ladder or ():
        assert f"**{rung.name}**" in text


def test_every_runbook_is_of_a_rule() -> None:
    assert {path.stem for path in BOOKS.glob("*.md")} == set(RULES)


@pytest.mark.parametrize("pack", PACKS)
def test_a_rule_is_enforced_says_whom_it_means_and_names_its_fault(pack: str) -> None:
    for name in of_pack(pack):
        _a_rule_is_enforced_says_whom_it_means_and_names_its_fault(name)


def _a_rule_is_enforced_says_whom_it_means_and_names_its_fault(name: str) -> None:
    spec = LADDERS[name].spec
    assert spec.mode is (Mode.DRY_RUN if name in PLANNED else Mode.ENFORCE)
    assert spec.fault_class != "unknown"
    assert "mode" in spec.model_fields_set
    assert "on_give_up" in spec.model_fields_set


@pytest.mark.parametrize("pack", PACKS)
def test_a_condition_must_have_been_heard_of_and_held_before_anything_is_done(pack: str) -> None:
    for name in of_pack(pack):
        _a_condition_must_have_been_heard_of_and_held_before_anything_is_done(name)


def _a_condition_must_have_been_heard_of_and_held_before_anything_is_done(name: str) -> None:
    rule = LADDERS[name]
    if rule.spec.disruption_class is Disruption.NONE:
        return
    for leaf in rule.spec.when.leaves():
        if isinstance(leaf, ConditionLeaf) and leaf.type != "SpotPriceNodeReclaimNotification":
            assert leaf.for_
            assert leaf.max_age


@pytest.mark.parametrize("pack", PACKS)
def test_a_rule_that_acts_steps_aside_for_maintenance_and_other_owners(pack: str) -> None:
    for name in of_pack(pack):
        _a_rule_that_acts_steps_aside_for_maintenance_and_other_owners(name)


def _a_rule_that_acts_steps_aside_for_maintenance_and_other_owners(name: str) -> None:
    rule = LADDERS[name]
    if rule.spec.disruption_class is Disruption.NONE or PACK_OF[name] == HOST_EVENTS:
        return
    assert rule.spec.unless is not None
    guards = json.dumps(rule.spec.unless.to_dict())
    assert "maintenance.active" in guards
    assert "node.foreignOwner" in guards


@pytest.mark.parametrize("pack", PACKS)
def test_nothing_empties_or_boots_a_control_plane_node_by_itself(pack: str) -> None:
    for name in of_pack(pack):
        _nothing_empties_or_boots_a_control_plane_node_by_itself(name)


def _nothing_empties_or_boots_a_control_plane_node_by_itself(name: str) -> None:
    rule = LADDERS[name]
    booting = {"reboot", "powerCycle", "powerOff", "replace"}
    steps = {step.name for rung in rule.spec.ladder or () for step in rung.steps}
    if not steps & booting or PACK_OF[name] == HOST_EVENTS:
        return
    labels = {"kubernetes.io/os": "linux", "node-role.kubernetes.io/control-plane": ""}
    assert not rule.spec.nodes.matches(labels)
    assert not rule.spec.nodes.matches(
        {"kubernetes.io/os": "linux", "node-role.kubernetes.io/etcd": ""}
    )


@pytest.mark.parametrize("pack", PACKS)
def test_a_ladder_begins_mildly(pack: str) -> None:
    for name in of_pack(pack):
        _a_ladder_begins_mildly(name)


def _a_ladder_begins_mildly(name: str) -> None:
    weights = [rung.disruption_class.weight for rung in LADDERS[name].spec.ladder or ()]
    told = [weight for weight in weights if weight]  # a last rung may only tell people
    assert told == sorted(told)


def test_priorities_differ_so_that_no_choice_hangs_on_names() -> None:
    priorities = [rule.spec.priority for rule in LADDERS.values()]
    assert len(set(priorities)) == len(priorities)


def test_the_demo_has_a_rule_that_this_version_can_run_for_each_of_its_faults() -> None:
    asked = {
        leaf.type
        for name in HEALED_IN_THE_DEMO
        for leaf in RULES[name].spec.when.leaves()
        if isinstance(leaf, ConditionLeaf)
    }
    assert {check.type for check in CHECKS} <= asked
    for name in HEALED_IN_THE_DEMO:
        assert not unsupported(RULES[name].spec.ladder or [])
