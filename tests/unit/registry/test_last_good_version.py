"""The last good version of a rule outlives our restart."""

from itertools import count

import pytest
from support.revisions_world import BAD, Died, Operator, RevisionApi

from kubenode.runtime.kube.errors import Forbidden, ServerUnreachable
from remedy.registry.revisions import name_of, rule_of


async def test_a_refused_version_keeps_the_good_one_over_a_restart_and_says_so() -> None:
    api = RevisionApi()
    before = Operator(api)
    before.write(1)
    await before.turn()
    before.write(2, ladder=BAD)
    await before.turn()
    assert before.active() == ["runtime@1"]

    after = Operator(api, before)
    await after.turn()
    assert after.active() == ["runtime@1"]
    status = after.hands.remediers.cache["runtime"].status
    assert status.phase == "Rejected"
    [compiled] = [c for c in status.conditions if c.type == "Compiled"]
    assert compiled.status == "False" and "last good version stays loaded" in compiled.message
    good = after.rules.good("runtime")
    assert good is not None and good.spec.ladder is not None
    assert good.spec.ladder[0].name == "restart"


async def test_a_version_refused_while_we_were_away_leaves_the_good_one() -> None:
    api = RevisionApi()
    before = Operator(api)
    before.write(1)
    await before.turn()
    before.write(2, ladder=BAD)  # nobody was there to see it

    after = Operator(api, before)
    await after.turn()
    assert after.active() == ["runtime@1"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("applied", [False, True])
async def test_dying_at_any_write_ends_with_the_last_good_version_active(applied: bool) -> None:
    for die_at in count(1):
        api = RevisionApi(die_at, applied)
        operator = Operator(api)
        for generation, spec in ((1, {}), (2, {"priority": 7}), (3, {"priority": 8}), (4, BAD)):
            bad = {"ladder": spec} if isinstance(spec, list) else spec
            operator.write(generation, **bad)
            for _ in range(2):
                try:
                    await operator.turn()
                except Died:
                    operator = Operator(api, operator)
        assert operator.active() == ["runtime@3"], api.writes
        again = Operator(api, operator)
        await again.turn()
        assert again.active() == ["runtime@3"], api.writes
        assert api.generations() == [2, 3]
        if len(api.writes) < die_at:
            return  # every write had its turn


async def test_only_two_good_versions_of_a_rule_are_kept_and_each_once() -> None:
    api = RevisionApi()
    operator = Operator(api)
    for generation in range(1, 9):
        operator.write(generation, priority=generation)
        await operator.turn()
        await operator.turn()
    assert api.generations() == [7, 8]
    assert len([w for w in api.writes if w.startswith("create")]) == 8


async def test_nothing_is_loaded_before_the_good_versions_are_read() -> None:
    api = RevisionApi()
    before = Operator(api)
    before.write(1)
    await before.turn()
    before.write(2, ladder=BAD)
    after = Operator(api, before)
    api.failing = [ServerUnreachable("away"), ServerUnreachable("away")]
    after.hands.clock.sleep = _at_once  # type: ignore[method-assign]
    await after.turn()
    assert api.failing == [] and after.active() == ["runtime@1"]


async def _at_once(seconds: float) -> None:
    return None


async def test_a_missing_right_to_read_them_loads_what_is_good_now() -> None:
    api = RevisionApi()
    api.failing = [Forbidden(403, "Forbidden", "no")]
    operator = Operator(api)
    operator.write(1)
    await operator.turn()
    assert operator.active() == ["runtime@1"]


async def test_a_rule_made_anew_under_an_old_name_inherits_nothing() -> None:
    api = RevisionApi()
    before = Operator(api)
    before.write(1)
    await before.turn()
    after = Operator(api, before)
    old = after.hands.remediers.cache["runtime"].to_dict()
    after.hands.remediers.put(
        {
            "metadata": {"name": "runtime", "uid": "another", "generation": 1},
            "spec": {**old["spec"], "ladder": BAD},
        }
    )
    await after.turn()
    assert after.active() == []


async def test_a_revision_that_cannot_be_read_is_passed_over() -> None:
    api = RevisionApi()
    before = Operator(api)
    before.write(1)
    await before.turn()
    [(name, body)] = api.there.items()
    api.there[name] = {**body, "data": {"name": "runtime", "spec": {"mode": "Sideways"}}}
    before.write(2, ladder=BAD)
    after = Operator(api, before)
    await after.turn()
    assert after.active() == []


async def test_a_kept_rule_is_the_rule() -> None:
    api = RevisionApi()
    operator = Operator(api)
    operator.write(1, unless={"fact": {"name": "maintenance.active"}}, cooldown="7m")
    await operator.turn()
    [body] = api.there.values()
    there = rule_of(body)
    live = operator.hands.remediers.cache["runtime"]
    assert there.spec == live.spec
    assert body["metadata"]["ownerReferences"][0]["uid"] == live.metadata.uid


def test_the_longest_name_of_a_rule_has_a_name_for_its_revision() -> None:
    operator = Operator(RevisionApi())
    operator.write(1, name="r" * 253)
    rule = operator.hands.remediers.cache["r" * 253]
    assert len(name_of(rule)) <= 253


async def test_a_rule_that_was_off_meanwhile_still_has_its_good_version() -> None:
    api = RevisionApi()
    operator = Operator(api)
    operator.write(1)
    await operator.turn()
    operator.write(2, mode="Off")
    await operator.turn()
    assert operator.active() == []
    operator.write(3, ladder=BAD)
    await operator.turn()
    assert operator.active() == ["runtime@1"]


async def test_a_rule_that_only_watches_may_name_steps_to_come() -> None:
    operator = Operator(RevisionApi())
    operator.write(1, ladder=BAD, mode="DryRun")
    await operator.turn()
    assert operator.active() == ["runtime@1"]
    assert operator.hands.remediers.cache["runtime"].status.phase == "Active"


@pytest.mark.parametrize("mode", ["Enforce", "Approve"])
async def test_once_it_shall_act_it_is_refused_and_goes_on_watching(mode: str) -> None:
    operator = Operator(RevisionApi())
    operator.write(1, ladder=BAD, mode="DryRun")
    await operator.turn()
    operator.write(2, ladder=BAD, mode=mode)
    await operator.turn()
    (active,) = operator.rules.active().values()
    assert (active.metadata.generation, active.spec.mode) == (1, "DryRun")
    status = operator.hands.remediers.cache["runtime"].status
    assert status.phase == "Rejected"
    [compiled] = [c for c in status.conditions if c.type == "Compiled"]
    assert "step replace with surge First is not available in this version" in compiled.message
