"""Every rule of our packs has lines that it must know, and our packs know what they should."""

from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from agent.detectors import ConditionReport, EventReport, Report, ReportedStatus
from agent.detectors.logs.line import Line
from agent.detectors.logs.pack import (
    ConfigError,
    Pack,
    PackRule,
    build_pack,
    our_program,
    read_pack,
    shipped,
)
from agent.detectors.logs.program import Program, join
from agent.detectors.logs.watch import begin, watch

NOW = datetime(2026, 1, 10, 10, 0, 30, tzinfo=UTC)
PACKS = {name: read_pack(name, text) for name, text in shipped()}


class Case(NamedTuple):
    name: str
    pack: Pack
    rule: PackRule


RULES = [Case(n, pack, rule) for n, pack in PACKS.items() for rule in pack.rule]
NAMES = [f"{c.name}-{i}-{c.rule.reason or c.rule.condition}" for i, c in enumerate(RULES)]


def only(case: Case) -> Program:
    pack = Pack(
        detector=case.pack.detector,
        origins=case.pack.origins,
        condition=case.pack.condition,
        rule=[case.rule],
        any_user=case.pack.any_user,
    )
    return join([build_pack(case.name, pack)])


def said(pack: Pack, text: str) -> Line:
    return Line(text, NOW, pack.origins[0], uid=0)


@pytest.mark.parametrize("case", RULES, ids=NAMES)
def test_a_rule_knows_its_lines_and_not_those_beside_them(case: Case) -> None:
    assert case.rule.matches, "a rule without an example"
    (rule,) = only(case).monitors[0].rules
    for text in case.rule.matches:
        assert rule.regexp.search(text), text
        excused = rule.unless is not None and rule.unless.search(text)
        assert not excused, text
    for text in case.rule.near_misses:
        excused = rule.unless is not None and rule.unless.search(text)
        assert excused or not rule.regexp.search(text), text


@pytest.mark.parametrize("case", RULES, ids=NAMES)
def test_a_rule_tells_what_it_says_once_its_rate_is_reached(case: Case) -> None:
    program, rule = only(case), case.rule
    state, _ = begin(program, NOW)
    told: list[Report] = []
    for _ in range(rule.count):
        assert not told, "told before its rate was reached"
        state, told = watch(program, state, said(case.pack, rule.matches[0]), NOW)
    if rule.clears:
        assert told == []
    elif rule.condition:
        (condition,) = told
        assert isinstance(condition, ConditionReport)
        assert (condition.type, condition.status) == (rule.condition, ReportedStatus.TRUE)
        assert (condition.reason, condition.message) == (rule.reason, rule.matches[0])
        assert condition.detector == case.pack.detector
    else:
        (event,) = told
        assert isinstance(event, EventReport)
        assert (event.reason, event.message) == (rule.reason, rule.matches[0])
        assert (event.severity, event.detector) == (rule.severity, case.pack.detector)


@pytest.mark.parametrize("case", RULES, ids=NAMES)
def test_a_line_of_anybody_else_says_nothing(case: Case) -> None:
    program = only(case)
    state, _ = begin(program, NOW)
    for origin in ("", "user@1000.service", "cri-containerd-4f.scope", "/var/log/syslog"):
        spoofed = Line(case.rule.matches[0], NOW, origin, case.pack.origins[0], uid=0)
        for _ in range(case.rule.count):
            assert watch(program, state, spoofed, NOW) == (state, [])


@pytest.mark.parametrize("name", PACKS)
def test_patterns_for_the_kernel_begin_where_a_line_begins(name: str) -> None:
    """A tenant chooses names of programs and devices; the beginning of a line is the kernel's."""
    if PACKS[name].origins == ["kernel"]:
        free = [r.pattern for r in PACKS[name].rule if not r.pattern.startswith("^")]
        assert all("NEURON_HW_ERR=" in pattern for pattern in free)


def test_every_fact_names_its_source() -> None:
    assert all(case.rule.source for case in RULES)
    assert all(one.source for pack in PACKS.values() for one in pack.condition)


def test_every_condition_can_clear_again() -> None:
    for condition in our_program().conditions.values():
        clear = condition.clear
        assert clear.quiet or clear.check or clear.boot, condition.type


def test_no_rule_is_lost_when_all_are_put_together() -> None:
    program = our_program()
    state, _ = begin(program, NOW)
    for case in RULES:
        if case.rule.count > 1 or case.rule.clears:
            continue
        _, told = watch(program, state, said(case.pack, case.rule.matches[0]), NOW)
        assert case.rule.reason in {report.reason for report in told}, case.rule.pattern


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("detector = 'x'", "p.toml: Object missing required field `origins`"),
        ("detector = 'x'\norigins = []", "p.toml: origins []: say whose lines count"),
        (
            "detector = 'x'\norigins = ['kernel']\n[[rule]]\nreason='A'\nsource='s'\npattern='('",
            "p.toml: rule[0].pattern '(': missing ): (; write it in RE2's syntax",
        ),
        (
            "detector='x'\norigins=['kernel']\n[[rule]]\nreason='A'\nsource='s'\npattern='a'\n"
            "condition='B'",
            "p.toml: rule[0].condition 'B': add a [[condition]] of it",
        ),
        (
            "detector='x'\norigins=['kernel']\n[[rule]]\nreason='A'\nsource='s'\npattern='a'\n"
            "count=3",
            "p.toml: rule[0].count 3: count and within go together",
        ),
        (
            "detector='x'\norigins=['kernel']\n[[rule]]\nreason='A'\nsource='s'\npattern='a'\n"
            "count=3\nwithin='soon'",
            "p.toml: rule[0].within: 'soon' is no duration: write it like 90s or 1h30m",
        ),
    ],
)
def test_a_bad_pack_is_refused_with_file_field_value_and_remedy(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as raised:
        build_pack("p.toml", read_pack("p.toml", text))
    assert str(raised.value).startswith(complaint)


def test_the_page_for_users_names_every_condition_and_event() -> None:
    page = (Path(__file__).parents[4] / "docs/detectors-logs.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    for case in RULES:
        words = {case.rule.reason, case.rule.condition} - {""}
        owners = [row for row in rows if f"`{case.pack.detector}`" in row]
        for word in words:
            assert any(f"`{word}`" in row for row in owners), (case.pack.detector, word)


@pytest.mark.exhaustive
def test_patterns_of_a_site_that_need_too_much_memory_are_refused_when_built() -> None:
    rules = [PackRule(rf"^{n}\w{{900}}", "s", reason="A") for n in range(400)]
    with pytest.raises(ConfigError, match=r"p\.toml: the patterns of x together"):
        build_pack("p.toml", Pack("x", ["kernel"], rule=rules))


@pytest.mark.parametrize("name", PACKS)
def test_our_packs_compile_as_those_of_a_site_do(name: str) -> None:
    """Their sets are compiled at the first line of a writer, so nothing else checks them."""
    build_pack(name, PACKS[name])
