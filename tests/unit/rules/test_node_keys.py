"""Keys of labels and annotations that rules may set on Nodes."""

import pytest
from support.lint_cases import ladder, named

from kubenode.api.v1alpha1 import Disruption
from rules.lint import lint
from rules.nodekeys import NodeKeys, key_fault

PROTECTED = [
    "kubernetes.io/os",
    "node.kubernetes.io/exclude-from-external-load-balancers",
    "node-restriction.kubernetes.io/pool",
    "NODE.Kubernetes.IO/x",
    "topology.k8s.io/zone",
    "cluster.x-k8s.io/machine",
    "karpenter.sh/nodepool",
    "karpenter.k8s.aws/instance",
    *(f"kubenode.io/{mark}" for mark in ("machine", "bmc", "fenced-by", "cordoned-by", "suspects")),
]
ALL_CLASSES = list(Disruption)


@pytest.mark.parametrize("key", ["kubenode.io/suspect", "kubenode.io/suspect-disk"])
def test_keys_of_suspicion_are_allowed_by_default(key: str) -> None:
    assert NodeKeys().refusal(key, Disruption.NONE) == ""


@pytest.mark.parametrize("class_", ALL_CLASSES)
@pytest.mark.parametrize("key", PROTECTED)
def test_protected_keys_are_refused_whatever_is_configured(key: str, class_: Disruption) -> None:
    wide = NodeKeys(allowed=(key, "*"), disruptive=(key,))
    assert "no rule may set it: use a key such as" in wide.refusal(key, class_)


@pytest.mark.parametrize("key", ["pool", "example.com/pool", "mykubernetes.io/x", "kubernetes.io"])
def test_unlisted_keys_are_refused_with_the_list_and_the_remedy(key: str) -> None:
    why = NodeKeys().refusal(key, Disruption.NODE)
    assert why.startswith(f"{key!r} is not in node_keys") and "kubenode.io/suspect" in why
    assert "let an administrator add" in why


def test_listed_keys_and_prefixes_are_allowed() -> None:
    keys = NodeKeys(allowed=("example.com/*", "pool"))
    assert keys.refusal("example.com/any", Disruption.NONE) == ""
    assert keys.refusal("pool", Disruption.NONE) == ""
    assert keys.refusal("pools", Disruption.NONE) and keys.refusal("example.com", Disruption.NONE)


def test_disruptive_keys_need_a_rung_that_asks_for_the_pods() -> None:
    keys = NodeKeys(disruptive=("example.com/pool",))
    for class_ in (Disruption.NONE, Disruption.HOST):
        assert "write `disruption: Pods`" in keys.refusal("example.com/pool", class_)
    for class_ in (Disruption.PODS, Disruption.NODE):
        assert keys.refusal("example.com/pool", class_) == ""


@pytest.mark.parametrize("entry", ["", "*", "a*b", "kubernetes.io/os", "kubenode.io/*", "k8s.io/*"])
def test_settings_refuse_entries_that_can_never_take_effect(entry: str) -> None:
    assert list(NodeKeys(allowed=(entry,)).entry_faults())
    assert list(NodeKeys(disruptive=(entry,)).entry_faults())


def test_default_settings_and_keys_of_a_site_are_fine() -> None:
    assert list(NodeKeys().entry_faults()) == []
    assert list(NodeKeys(allowed=("example.com/*",), disruptive=("pool",)).entry_faults()) == []


@pytest.mark.parametrize("act", ["label", "annotate"])
def test_a_rule_is_refused_with_the_field_of_each_key(act: str) -> None:
    rule = named("r", ladder=ladder({"notify": {}}, {act: {"key": "kubernetes.io/os"}}))
    assert key_fault(rule.spec, NodeKeys()).startswith(
        f"spec.ladder[0].steps[1].{act}.key: 'kubernetes.io/os': "
    )


def test_lint_calls_a_protected_key_an_error_and_an_unlisted_one_advice() -> None:
    rule = named("r", ladder=ladder({"label": {"key": "kubernetes.io/os"}}))
    assert "protected-key" in {f.code for f in lint([rule])}
    rule = named("r", ladder=ladder({"label": {"key": "example.com/a"}}))
    assert "unlisted-key" in {f.code for f in lint([rule])}
    listed = NodeKeys(allowed=("example.com/*",))
    assert "unlisted-key" not in {f.code for f in lint([rule], node_keys=listed)}
