from typing import Any

import pytest
from support.rules_builders import a_rule

from kubenode.api.meta import LabelSelector, NodeSelection
from kubenode.api.v1alpha1 import Expression
from kubenode.api.v1alpha1.leaves import AbsentLeaf, EventLeaf
from rules.program import RuleVersion, compile_program, stored_facts


def refused(*rules: RuleVersion) -> dict[str, tuple[str, str]]:
    return {e.rule: (e.path, e.message) for e in compile_program(rules).rejected}


def reads(name: str) -> dict[str, Any]:
    return {"fact": {"name": name}}


def test_rule_stands_one_stratum_above_what_it_reads() -> None:
    rules = [
        a_rule("last", when=reads("d.second")),
        a_rule("second", when={"not": reads("d.first")}, infer={"fact": "d.second"}),
        a_rule("first", infer={"fact": "d.first"}),
    ]
    strata = compile_program(rules).strata
    assert [[rule.id for rule in stratum] for stratum in strata] == [
        ["first"],
        ["second"],
        ["last"],
    ]


def test_rules_that_infer_one_fact_share_a_stratum() -> None:
    rules = [
        a_rule("base", infer={"fact": "d.base"}),
        a_rule("low", infer={"fact": "d.both"}),
        a_rule("high", when=reads("d.base"), infer={"fact": "d.both"}),
        a_rule("reader", when={"not": reads("d.both")}),
    ]
    level = {r.id: r.stratum for r in compile_program(rules).rules}
    assert level["low"] == level["high"] == 1
    assert level["reader"] == 2


@pytest.mark.parametrize("negated", [False, True])
def test_cycle_of_derived_facts_is_refused_with_its_path(negated: bool) -> None:
    back = {"not": reads("d.b")} if negated else reads("d.b")
    rules = [
        a_rule("a", when=back, infer={"fact": "d.a"}),
        a_rule("b", when=reads("d.a"), infer={"fact": "d.b"}),
        a_rule("good"),
    ]
    program = compile_program(rules)
    assert "good" in [rule.id for rule in program.rules]
    assert any("cycle: " in e.message and "->" in e.message for e in program.rejected)


def test_fact_as_evidence_for_itself_is_refused() -> None:
    assert "a" in refused(a_rule("a", when=reads("d.a"), infer={"fact": "d.a"}))


def test_unknown_fact_is_refused_with_its_place() -> None:
    when = {"all": [{"condition": {"type": "Fault"}}, {"not": reads("no.such")}]}
    path, message = refused(a_rule("a", when=when))["a"]
    assert path == "spec.when.all[1].not.fact.name"
    assert "no.such" in message


def test_refused_rule_takes_its_readers_with_it_and_no_others() -> None:
    rules = [
        a_rule("bad", when=reads("no.such"), infer={"fact": "d.a"}),
        a_rule("reader", when=reads("d.a")),
        a_rule("good"),
    ]
    program = compile_program(rules)
    assert [rule.id for rule in program.rules] == ["good"]
    assert set(refused(*rules)) == {"bad", "reader"}


def test_too_many_alternatives_are_refused_with_the_way_out() -> None:
    five = [{"any": [{"condition": {"type": f"T{n}{m}"}} for m in range(3)]} for n in range(4)]
    path, message = refused(a_rule("a", when={"all": five}))["a"]
    assert path == "spec.when"
    assert "infer" in message


def test_value_that_nobody_infers_is_refused() -> None:
    asks = {"fact": {"name": "d.a", "equals": "high"}}
    rules = [a_rule("a", infer={"fact": "d.a", "value": "low"}), a_rule("b", when=asks)]
    assert "b" in refused(*rules)


def test_built_in_fact_cannot_be_inferred() -> None:
    assert "a" in refused(a_rule("a", infer={"fact": "node.ready"}))


def test_equal_leaves_are_read_once() -> None:
    assert len(compile_program([a_rule("a"), a_rule("b")]).atoms) == 1


EMPTY = {
    "all": Expression.model_construct(all=[]),
    "any": Expression.model_construct(any=[]),
    "nothing": Expression.model_construct(),
    "not of an empty any": Expression.model_construct(not_=Expression.model_construct(any=[])),
    "any event": Expression.model_construct(event=EventLeaf.model_construct()),
    "absence of nothing": Expression.model_construct(absent=AbsentLeaf.model_construct()),
}


@pytest.mark.parametrize("root", ["when", "unless"])
@pytest.mark.parametrize("what", EMPTY)
def test_f06_empty_expression_that_got_past_the_api_is_refused(what: str, root: str) -> None:
    rule = a_rule("a")
    setattr(rule.remedier.spec, root, EMPTY[what])
    path, _ = refused(rule, a_rule("good"))["a"]
    assert path.startswith(f"spec.{root}")


NOBODY = {
    "nothing": NodeSelection.model_construct(),
    "empty selector": NodeSelection.model_construct(selector=LabelSelector.model_construct()),
    "both": NodeSelection.model_construct(all=True, selector=LabelSelector.model_construct()),
    "empty exclude": NodeSelection.model_construct(
        all=True, exclude=LabelSelector.model_construct()
    ),
}


@pytest.mark.parametrize("what", NOBODY)
def test_f06_selection_of_nothing_that_got_past_the_api_is_refused(what: str) -> None:
    rule = a_rule("a")
    rule.remedier.spec.nodes = NOBODY[what]
    path, _ = refused(rule, a_rule("good"))["a"]
    assert path.startswith("spec.nodes")


def test_rules_that_read_what_a_refused_rule_infers_are_refused_beside_other_sources() -> None:
    rules = [
        a_rule("bad", when=reads("no.such"), infer={"fact": "d.a"}),
        a_rule("other", infer={"fact": "d.a"}),
        a_rule("reader", when={"not": reads("d.a")}),
    ]
    assert set(refused(*rules)) == {"bad", "reader"}


def chain(length: int) -> list[RuleVersion]:
    """Each infers a fact from the one before, the last of them first."""
    first = a_rule("i0", infer={"fact": "d.f0"})
    more = [
        a_rule(f"i{n}", when=reads(f"d.f{n - 1}"), infer={"fact": f"d.f{n}"})
        for n in range(1, length)
    ]
    return [*reversed(more), first]


def test_long_chain_of_facts_compiles() -> None:
    program = compile_program(chain(600))
    assert (len(program.strata), program.rejected) == (600, ())


def test_long_cycle_is_refused_with_its_path() -> None:
    rules = chain(300)
    rules[-1] = a_rule("i0", when=reads("d.f299"), infer={"fact": "d.f0"})
    assert any("d.f3 -> d.f2 -> d.f1" in e.message for e in compile_program(rules).rejected)


def groups(count: int, size: int) -> list[dict[str, Any]]:
    return [
        {"all": [{"condition": {"type": f"T{i}x{j}"}} for j in range(size)]} for i in range(count)
    ]


def test_only_what_acting_rests_on_must_be_expandable() -> None:
    """Four groups of three: 4 alternatives when true, 81 when known false."""
    wide = {"any": groups(4, 3)}
    (rule,) = compile_program([a_rule("a", when=wide)]).rules
    assert set(rule.given) == {"r0ep"}
    assert "spec.unless" in refused(a_rule("a", unless=wide))["a"][0]
    read = [a_rule("a", when=wide, infer={"fact": "d.a"}), a_rule("b", when=reads("d.a"))]
    assert "known false" in refused(*read)["a"][1]


def test_too_many_leaves_in_one_alternative_are_refused() -> None:
    path, message = refused(a_rule("a", when={"all": groups(9, 16)}), a_rule("good"))["a"]
    assert path == "spec.when"
    assert "120 leaves" in message


MISFITS: list[dict[str, Any]] = [
    {"name": "node.ready", "above": 1},
    {"name": "node.kernel", "below": 6.1},
    {"name": "node.ready", "equals": "true"},
    {"name": "node.age", "is": True},
    {"name": "node.age"},
    {"name": "node.kernel"},
    {"name": "node.kernel", "equals": 6},
    {"name": "node.gpuCount", "in": [1, "2"]},
]


@pytest.mark.parametrize("leaf", MISFITS, ids=str)
@pytest.mark.parametrize("absent", [False, True])
def test_comparison_that_never_fits_a_built_in_fact_is_refused(
    leaf: dict[str, Any], absent: bool
) -> None:
    when = {"absent": {"fact": leaf}} if absent else {"fact": leaf}
    path, message = refused(a_rule("a", when=when), a_rule("good"))["a"]
    assert path == ("spec.when.absent.fact" if absent else "spec.when.fact")
    assert leaf["name"] in message


def test_comparisons_that_fit_are_taken() -> None:
    for leaf in (
        {"name": "node.ready"},
        {"name": "node.ready", "is": False},
        {"name": "node.age", "below": 5},
        {"name": "node.gpuCount", "equals": 0},
        {"name": "node.cordonedBy", "in": ["somebody", ""]},
    ):
        assert not refused(a_rule("a", when={"fact": leaf}))


FAULT = {"condition": {"type": "Fault"}}
MANY = {"fact": {"name": "rack.sameFault", "above": 3}}


def test_count_of_the_same_fault_is_an_atom_of_its_own_rule() -> None:
    both = {"all": [FAULT, MANY]}
    program = compile_program([a_rule("a", when=both), a_rule("b", when=both)])
    first, second = program.rules
    assert (len(first.same_fault), len(second.same_fault)) == (1, 1)
    assert first.same_fault != second.same_fault
    assert len(program.atoms) == 3


ALONE: dict[str, tuple[dict[str, Any], str]] = {
    "alone": (MANY, "spec.when.fact"),
    "beside another count": ({"all": [MANY, MANY]}, "spec.when.all[0].fact"),
    "in any": ({"any": [FAULT, MANY]}, "spec.when.any[1].fact"),
    "under not": ({"all": [FAULT, {"not": MANY}]}, "spec.when.all[1].not"),
    "all under not": ({"not": {"all": [FAULT, MANY]}}, "spec.when.not.all[1].fact"),
    "absent": ({"all": [FAULT, {"absent": MANY}]}, "spec.when.all[1].absent"),
}


@pytest.mark.parametrize("what", ALONE)
def test_count_of_the_same_fault_needs_a_fault_beside_it(what: str) -> None:
    """Without one, or under `not`, every node or none would be counted."""
    when, path = ALONE[what]
    assert refused(a_rule("a", when=when), a_rule("good"))["a"][0] == path


def test_guard_may_ask_the_count_in_any_place() -> None:
    (rule,) = compile_program([a_rule("a", unless={"any": [{"not": MANY}, MANY]})]).rules
    assert rule.same_fault == ()


def test_probes_of_the_evidence_are_named_absent_ones_too() -> None:
    probe = {"probe": {"name": "disk.used_pct", "above": 90}}
    absent = {"absent": {"probe": {"name": "host.agent", "equals": "alive"}}}
    program = compile_program([a_rule("a", when={"all": [FAULT, probe, absent]})])
    assert program.rules[0].probes == (1, 2)
    (guarded,) = compile_program([a_rule("a", when=FAULT, unless=probe)]).rules
    assert guarded.probes == ()


@pytest.mark.parametrize(
    ("probe", "path", "told"),
    [
        ({"name": "disk.usedpct", "above": 90}, "spec.when.probe.name", "disk.used_pct"),
        ({"name": "disk.used_pct"}, "spec.when.probe", "below, above"),
        ({"name": "host.agent", "equals": "alve"}, "spec.when.probe", "alive, dead"),
        ({"name": "disk.space_ok", "equals": "yes"}, "spec.when.probe", "is: true"),
    ],
)
def test_probe_that_nobody_answers_or_that_never_fits_is_refused(
    probe: dict[str, Any], path: str, told: str
) -> None:
    at, message = refused(a_rule("a", when={"probe": probe}), a_rule("good"))["a"]
    assert at == path
    assert told in message


def test_misspelt_fact_is_refused_with_what_may_have_been_meant() -> None:
    leaf = {"fact": {"name": "node.agee", "above": 3}}
    assert "node.age" in refused(a_rule("a", when=leaf))["a"][1]


WIDE = {"fact": "rack.dark", "scope": "Rack", "for": "10m"}


@pytest.mark.parametrize(
    "infer", [WIDE, {"fact": "rack.dark", "scope": "Cluster"}, {"fact": "rack.dark", "for": "1m"}]
)
def test_stored_fact_is_read_as_an_atom_and_raises_nobody(infer: dict[str, Any]) -> None:
    rules = [a_rule("a", infer=infer), a_rule("b", when=reads("rack.dark"))]
    program = compile_program(rules)
    assert program.derived == ()
    assert [rule.stratum for rule in program.rules] == [0, 0]
    assert [rule.infers for rule in program.rules] == [(), ()]
    assert stored_facts(rules) == {"rack.dark"}


def test_cycles_are_refused_over_all_scopes() -> None:
    rules = [
        a_rule("a", when=reads("d.b"), infer=WIDE),
        a_rule("b", when={"not": reads("rack.dark")}, infer={"fact": "d.b"}),
        a_rule("own", when=reads("d.own"), infer={"fact": "d.own", "scope": "Zone"}),
        a_rule("good"),
    ]
    program = compile_program(rules)
    assert [rule.id for rule in program.rules] == ["good"]
    assert any("cycle: " in e.message for e in program.rejected)


def test_readers_of_a_refused_stored_fact_are_refused() -> None:
    rules = [
        a_rule("bad", when=reads("no.such"), infer=WIDE),
        a_rule("reader", when={"not": reads("rack.dark")}),
    ]
    assert set(refused(*rules)) == {"bad", "reader"}


def test_one_fact_has_one_scope_and_stored_one_value() -> None:
    twice = [a_rule("a", infer=WIDE), a_rule("b", infer={"fact": "rack.dark", "scope": "Zone"})]
    assert refused(*twice)["b"][0] == "spec.infer.scope"
    values = [a_rule("a", infer={**WIDE, "value": 1}), a_rule("b", infer={**WIDE, "value": 2})]
    assert refused(*values)["b"][0] == "spec.infer.value"
    assert refused(a_rule("a", infer={**WIDE, "value": False}))["a"][0] == "spec.infer.value"


def test_reader_of_a_refused_rule_is_told_so_wherever_the_rule_was_refused() -> None:
    """By its own leaves, by its neighbours, or because it is too wide to be compiled."""
    wide = [{"any": [{"condition": {"type": f"T{n}{m}"}} for m in range(3)]} for n in range(4)]
    for bad in ({"probe": {"name": "no.such", "above": 1}}, reads("no.such"), {"all": wide}):
        rules = [
            a_rule("bad", when=bad, infer={"fact": "d.a"}),
            a_rule("middle", when=reads("d.a"), infer={"fact": "d.b"}),
            a_rule("reader", when=reads("d.b")),
            a_rule("good"),
        ]
        found = refused(*rules)
        assert set(found) == {"bad", "middle", "reader"}
        assert "a rule that infers d.b was refused" in found["reader"][1]


def test_every_cycle_is_found_at_once_and_what_does_not_turn_stays() -> None:
    rules = [
        a_rule("a", when=reads("d.b"), infer={"fact": "d.a"}),
        a_rule("b", when=reads("d.a"), infer={"fact": "d.b"}),
        a_rule("c", when={"all": [reads("d.c"), reads("d.straight")]}, infer={"fact": "d.c"}),
        a_rule("straight", infer={"fact": "d.straight"}),
        a_rule("reader", when=reads("d.straight")),
    ]
    program = compile_program(rules)
    assert {rule.id for rule in program.rules} == {"straight", "reader"}
    assert sum("cycle" in error.message for error in program.rejected) == 2


def test_thousands_of_bad_rules_cost_little_more_than_one() -> None:
    """Each pass finds the faults of all rules: passes do not grow with the faults."""
    bad = [
        a_rule(f"bad{n}", when=reads(f"no.such{n}"), infer={"fact": f"d.f{n}"}) for n in range(300)
    ]
    readers = [a_rule(f"reader{n}", when=reads(f"d.f{n}")) for n in range(300)]
    program = compile_program([*readers, *bad, a_rule("good")])
    assert [rule.id for rule in program.rules] == ["good"]
    assert len(program.rejected) == 600
