"""What the admission webhook answers: good rules, bad ones, rules that would match too much."""

import json
from typing import Any

import pytest
from support.webhook_world import (
    ISOLATE,
    SICK,
    Admission,
    FleetInHand,
    a_review,
    a_spec,
    an_infer,
    an_object,
)

from kubenode.runtime.admission.review import LONGEST_WARNING, BadReview, read


def fact(name: str, **more: Any) -> dict[str, Any]:
    return {"fact": {"name": name, **more}}


async def test_a_good_rule_passes_and_its_author_is_told_its_size() -> None:
    with Admission(FleetInHand(1000, sick=12)) as admission:
        said = await admission.create(a_spec())
    assert said["allowed"]
    assert "would match 12 of 1,000 nodes now, selects the whole fleet, 1,000" in said["warnings"]
    assert said["auditAnnotations"] == {"matching": "12 of 1000"}
    assert any("no-guards" in warning for warning in said["warnings"]), "advice of lint"


async def test_a_rule_that_matches_the_whole_fleet_is_refused_and_its_author_is_told() -> None:
    with Admission(FleetInHand(1000, sick=1000)) as admission:
        said = await admission.create(a_spec())
    assert not said["allowed"]
    assert said["status"]["code"] == 422
    assert "would match 1,000 of 1,000 nodes now, more than 100" in said["text"]
    assert 'kubenode.io/accept-blast-radius: "1000"' in said["text"]


async def test_a_rule_that_selects_the_whole_fleet_is_bounded_to_being_told() -> None:
    with Admission(FleetInHand(1000)) as admission:
        said = await admission.create(a_spec())
    assert said["allowed"] and "selects the whole fleet, 1,000" in said["warnings"][0]


@pytest.mark.parametrize(("sick", "passes"), [(100, True), (101, False)])
async def test_a_tenth_of_the_fleet_is_the_limit(sick: int, passes: bool) -> None:
    with Admission(FleetInHand(1000, sick=sick)) as admission:
        assert (await admission.create(a_spec()))["allowed"] is passes


@pytest.mark.parametrize(("size", "sick", "passes"), [(3, 1, True), (3, 2, False), (1, 1, True)])
async def test_of_a_small_fleet_one_node_may_match(size: int, sick: int, passes: bool) -> None:
    with Admission(FleetInHand(size, sick)) as admission:
        assert (await admission.create(a_spec()))["allowed"] is passes


@pytest.mark.parametrize("mode", ["DryRun", "Approve", "Off"])
async def test_a_rule_that_does_nothing_by_itself_may_match_everything(mode: str) -> None:
    with Admission(FleetInHand(50, sick=50)) as admission:
        assert (await admission.create(a_spec(mode=mode)))["allowed"]


@pytest.mark.parametrize(
    "step", [{"notify": {"message": "look"}}, {"label": {"key": "kubenode.io/suspect"}}]
)
async def test_a_rule_of_class_none_is_limited_too(step: dict[str, Any]) -> None:
    with Admission(FleetInHand(50, sick=50)) as admission:
        said = await admission.create(a_spec(ladder=[{"name": "tell", "steps": [step]}]))
    assert not said["allowed"] and "more than 5" in said["text"]


async def test_an_acceptance_lets_a_large_rule_through_and_is_in_the_servers_audit_log() -> None:
    with Admission(FleetInHand(100, sick=60)) as admission:
        said = await admission.create(a_spec(), accept="60")
    assert said["allowed"]
    assert "60 of 100 nodes" in said["auditAnnotations"]["accepted"]


@pytest.mark.parametrize(
    ("given", "shown"), [("59", "it says 59"), ("all", "'all', no whole number"), ("-1", "'-1'")]
)
async def test_a_word_that_does_not_cover_the_matches_changes_nothing(
    given: str, shown: str
) -> None:
    with Admission(FleetInHand(100, sick=60)) as admission:
        said = await admission.create(a_spec(), accept=given)
        assert not said["allowed"] and shown in said["text"]


async def test_a_rule_that_does_not_compile_is_refused_with_its_path() -> None:
    with Admission() as admission:
        said = await admission.create(a_spec(when={"all": [SICK, fact("no.suchFact")]}))
    assert not said["allowed"]
    assert said["text"].startswith("spec.when.all[1].fact.name: 'no.suchFact' is no built-in fact")


async def test_a_cycle_through_rules_that_are_there_is_refused_whoever_is_blamed() -> None:
    with Admission() as admission:
        admission.there("aaa", an_infer("d.a", fact("d.b")))
        admission.there("sick", an_infer("d.b", {"any": [SICK, fact("d.c")]}))
        admission.there("base", an_infer("d.c"))
        spec = an_infer("d.c", fact("d.a"))
        said = await admission.create(spec)
    assert not said["allowed"]
    assert "cycle" in said["text"] and "d.a" in said["text"]


async def test_an_update_that_closes_a_cycle_is_told_the_cycle() -> None:
    with Admission() as admission:
        admission.there("base", an_infer("d.base"))
        admission.there("above", an_infer("d.above", fact("d.base")))
        old = an_object("base", an_infer("d.base"))
        new = an_object("base", an_infer("d.base", fact("d.above")), generation=2)
        said = await admission.ask(a_review(new, old))
    assert not said["allowed"] and "cycle" in said["text"]


async def test_a_rule_with_the_same_fact_as_a_built_in_one_is_refused() -> None:
    with Admission() as admission:
        said = await admission.create(an_infer("node.ready"))
    assert "built-in fact" in said["text"]


async def test_what_lint_calls_an_error_is_refused_and_advice_is_told() -> None:
    with Admission() as admission:
        said = await admission.create(a_spec(when={"event": {"reason": "Oops"}}, ladder=[ISOLATE]))
    assert not said["allowed"]
    assert "(unproven-repair)" in said["text"]


async def test_a_fact_is_judged_by_the_rules_that_act_on_it() -> None:
    with Admission(FleetInHand(100, sick=60)) as admission:
        admission.there("base", an_infer("d.sick", {"condition": {"type": "Never"}}))
        admission.there("reader", a_spec(when=fact("d.bad")))
        admission.there("between", an_infer("d.bad", fact("d.sick")))
        said = await admission.create(an_infer("d.sick"))
    assert not said["allowed"]
    assert "rule reader, which reads its fact, would match 60 of 100 nodes" in said["text"]


async def test_a_fact_that_is_read_in_other_modes_is_told() -> None:
    with Admission(FleetInHand(100, sick=60)) as admission:
        admission.there("base", an_infer("d.sick", {"condition": {"type": "Never"}}))
        admission.there("reader", a_spec(when=fact("d.sick"), mode="DryRun"))
        said = await admission.create(an_infer("d.sick"))
    assert said["allowed"]
    assert any("rule reader, which reads its fact" in text for text in said["warnings"])


async def test_switching_a_rule_off_is_never_refused() -> None:
    with Admission(FleetInHand(10, sick=10)) as admission:
        broken = a_spec(when=fact("no.suchFact"), mode="Off")
        said = await admission.ask(a_review(an_object("r", broken), an_object("r", a_spec())))
    assert said["allowed"]
    assert any("switched on it would be refused" in text for text in said["warnings"])


async def test_an_update_that_leaves_the_spec_is_answered_at_once() -> None:
    with Admission(FleetInHand(1000, sick=1000)) as admission:
        old = an_object("r", a_spec())
        said = await admission.ask(a_review({**old, "status": {"matching": 3}}, old))
        assert said == {"uid": "review-1", "allowed": True, "text": ""}
        assert admission.fleet.asked == 0


async def test_a_rule_on_its_way_out_is_not_examined() -> None:
    with Admission(FleetInHand(1000, sick=1000)) as admission:
        old = an_object("r", a_spec())
        new = an_object("r", a_spec(priority=7))
        new["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        assert (await admission.ask(a_review(new, old)))["allowed"]


async def test_a_deletion_passes_and_names_who_loses_a_fact() -> None:
    with Admission() as admission:
        admission.there("base", an_infer("d.sick"))
        admission.there("reader", a_spec(when=fact("d.sick")))
        said = await admission.ask(a_review(None, an_object("base", an_infer("d.sick"))))
        plain = await admission.ask(a_review(None, an_object("reader", a_spec())))
    assert said["allowed"] and said["warnings"][0].startswith("rule reader will be refused")
    assert plain == {"uid": "review-1", "allowed": True, "text": ""}


async def test_an_unknown_fleet_admits_nothing_that_acts() -> None:
    with Admission(FleetInHand(current=False)) as admission:
        acting = await admission.create(a_spec())
        shadow = await admission.create(a_spec(mode="DryRun"))
    assert (acting["allowed"], acting["status"]["code"]) == (False, 503)
    assert "not current" in acting["text"] and "mode: DryRun" in acting["text"]
    assert shadow["allowed"]


async def test_a_count_that_takes_too_long_admits_nothing_that_acts() -> None:
    with Admission(FleetInHand(20_000)) as admission:
        said = await admission.ask(a_review(an_object("new", a_spec())), seconds=0.15)
    assert not said["allowed"] and said["status"]["code"] == 503


async def test_an_object_that_is_no_rule_is_refused_by_field() -> None:
    with Admission() as admission:
        said = await admission.create(a_spec(priority=2000, mode="Maybe"))
    assert not said["allowed"]
    assert "spec.priority: 2000 is too large" in said["text"] and "spec.mode" in said["text"]


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "no admission.k8s.io/v1 AdmissionReview"),
        (b"\xff\xfe{", "no admission.k8s.io/v1 AdmissionReview"),
        (b"[" * 100_000, "body"),
        (b"{}", "apiVersion and kind"),
        (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', "request.uid"),
        (b'{"apiVersion":"v9","kind":"AdmissionReview","request":{"uid":"1"}}', "v9"),
    ],
)
async def test_a_body_that_is_no_review_is_told_why(raw: bytes, says: str) -> None:
    with pytest.raises(BadReview, match=says):
        read(raw)


async def test_a_review_about_another_resource_is_not_answered() -> None:
    with Admission() as admission, pytest.raises(BadReview, match=r"pods\.kubenode\.io"):
        await admission.ask(a_review(an_object("x", a_spec()), resource="pods"))


async def test_warnings_are_few_and_short() -> None:
    leaves = [{"condition": {"type": f"No{'x' * 90}{n}"}} for n in range(20)]
    both = [{"all": leaves[:10]}, {"all": leaves[10:]}]
    with Admission(FleetInHand(3)) as admission:
        said = await admission.create(a_spec(when={"all": both}))
    assert len(said["warnings"]) <= 13
    assert all(len(text.encode()) <= LONGEST_WARNING for text in said["warnings"])
    assert len(json.dumps(said["warnings"])) < 4096


async def test_one_rule_too_many_is_refused_and_a_change_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("remedy.webhook.examine.MOST_RULES", 2)
    with Admission(FleetInHand(3)) as admission:
        admission.there("one", a_spec())
        admission.there("two", a_spec())
        admission.there("off", a_spec(mode="Off"))
        assert "more than 2 rules" in (await admission.create(a_spec()))["text"]
        change = an_object("two", a_spec(priority=7), generation=2)
        assert (await admission.ask(a_review(change, an_object("two", a_spec()))))["allowed"]


async def test_every_outcome_is_counted() -> None:
    with Admission(FleetInHand(10, sick=9)) as admission:
        await admission.create(a_spec(mode="DryRun"))
        await admission.create(a_spec())
        await admission.create(a_spec(), accept="9")
        admission.fleet.current = False
        await admission.create(a_spec())

        def counted(outcome: str) -> float | None:
            return admission.registry.get_sample_value(
                "kubenode_remedy_admissions_total", {"outcome": outcome}
            )

        assert [counted(o) for o in ("allowed", "refused", "accepted", "unknown")] == [1] * 4


BOOT = [{"name": "boot", "steps": [{"cordon": {}}, {"replace": {"surge": "First"}}]}]


@pytest.mark.parametrize(
    ("mode", "passes"), [("Enforce", False), ("Approve", False), ("DryRun", True), ("Off", True)]
)
async def test_a_step_to_come_is_refused_where_the_rule_acts(mode: str, passes: bool) -> None:
    with Admission(FleetInHand(1000, sick=1)) as admission:
        said = await admission.create(a_spec(mode=mode, ladder=BOOT))
    assert said["allowed"] is passes
    assert (
        passes or "step replace with surge First is not available in this version" in said["text"]
    )
