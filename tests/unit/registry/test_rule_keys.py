"""Rules whose keys no rule may set are neither admitted nor loaded, however they were stored."""

from typing import Any

import pytest
from support.revisions_world import Operator, RevisionApi
from support.webhook_world import Admission, a_spec

from kubenode.cli.remedy_settings import RemedyFlags
from kubenode.runtime.settings import SettingsError, load
from rules.nodekeys import NodeKeys


def setting(key: str, **rung: Any) -> list[dict[str, Any]]:
    return [{"name": "mark", "steps": [{"label": {"key": key, "value": "nope"}}], **rung}]


@pytest.mark.parametrize("mode", ["Enforce", "Approve", "DryRun"])
@pytest.mark.parametrize("key", ["kubernetes.io/os", "kubenode.io/machine", "example.com/pool"])
async def test_admission_refuses_keys_that_are_not_allowed(key: str, mode: str) -> None:
    with Admission() as admission:
        said = await admission.create(a_spec(ladder=setting(key), mode=mode))
    assert not said["allowed"]
    assert f"spec.ladder[0].steps[0].label.key: '{key}'" in said["text"]


async def test_admission_takes_allowed_keys_and_those_of_the_settings() -> None:
    with Admission() as admission:
        assert (await admission.create(a_spec(ladder=setting("kubenode.io/suspect"))))["allowed"]
    keys = NodeKeys(allowed=("example.com/*",), disruptive=("pool",))
    with Admission(node_keys=keys) as admission:
        assert (await admission.create(a_spec(ladder=setting("example.com/a"))))["allowed"]
        said = await admission.create(a_spec(ladder=setting("pool")))
        assert not said["allowed"] and "write `disruption: Pods`" in said["text"]
        with_permit = a_spec(ladder=setting("pool", disruption="Pods"))
        assert (await admission.create(with_permit))["allowed"]


async def test_a_stored_rule_with_a_protected_key_is_not_loaded_and_says_why() -> None:
    process = Operator(RevisionApi())
    process.write(1, ladder=setting("kubernetes.io/os"))
    process.write(1, name="other")
    await process.turn()
    assert process.active() == ["other@1"], "the rest of the fleet's rules goes on"
    status = process.hands.remediers.cache["runtime"].status
    assert status.phase == "Rejected"
    [compiled] = [c for c in status.conditions if c.type == "Compiled"]
    assert "spec.ladder[0].steps[0].label.key: 'kubernetes.io/os'" in compiled.message


async def test_a_good_version_of_an_earlier_release_is_no_way_around_the_keys() -> None:
    process = Operator(RevisionApi())
    process.rules._node_keys = NodeKeys(allowed=("example.com/pool",))
    process.write(1, ladder=setting("example.com/pool"))
    await process.turn()
    assert process.active() == ["runtime@1"]
    restarted = Operator(process.revisions._kube, process)  # type: ignore[arg-type]
    await restarted.turn()
    assert restarted.active() == []
    assert restarted.hands.remediers.cache["runtime"].status.phase == "Rejected"


def test_the_operators_flags_are_its_lists() -> None:
    given = {"node_keys": "example.com/*, pool", "disruptive_node_keys": "drained"}
    keys = load(RemedyFlags, given).remedy.node_keys
    assert (keys.allowed, keys.disruptive) == (("example.com/*", "pool"), ("drained",))
    assert load(RemedyFlags, {}).remedy.node_keys == NodeKeys()


def test_a_flag_that_lists_a_protected_key_stops_the_operator_with_the_remedy() -> None:
    with pytest.raises(SettingsError, match="list keys of your own domain"):
        load(RemedyFlags, {"node_keys": "kubernetes.io/os"})
