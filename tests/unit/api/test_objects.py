"""The models accept what the design shows, and refuse one bad object for every rule."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError
from support.api_objects import BAD, GOOD, Bad

from kubenode.api.base import Resource
from kubenode.api.problems import problems
from kubenode.api.v1alpha1 import KINDS, DefenderPolicy, HostEvent, NodeRemedier, default_policy

BY_KIND: Mapping[str, type[Resource]] = {kind.__name__: kind for kind in KINDS}


def read(data: dict[str, Any]) -> Resource:
    return BY_KIND[data["kind"]].from_user(data)


@pytest.mark.parametrize("name", GOOD)
def test_an_object_of_the_design_is_accepted_and_survives_a_round_trip(name: str) -> None:
    once = read(GOOD[name])
    assert read(once.to_dict()) == once
    assert type(once).from_server(once.model_dump_json(by_alias=True).encode()) == once


def test_every_kind_has_a_good_object() -> None:
    assert {good["kind"] for good in GOOD.values()} == set(BY_KIND)


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name)
def test_bad_object_is_refused_and_field_and_remedy_are_named(bad: Bad) -> None:
    with pytest.raises(ValidationError) as caught:
        read(bad.object())
    lines = problems(caught.value)
    assert any(line.startswith(bad.field) and bad.says in line for line in lines), lines
    assert all("pydantic" not in line for line in lines)


@pytest.mark.parametrize(
    "nodes", [{"selector": {}}, {"selector": {"matchLabels": {}}}, {"selector": None}, {}, None]
)
def test_f06_empty_selector_is_refused_and_never_means_every_node(nodes: object) -> None:
    rule = {**GOOD["remedier"], "spec": {**GOOD["remedier"]["spec"], "nodes": nodes}}
    with pytest.raises(ValidationError) as caught:
        NodeRemedier.from_user(rule)
    assert any(line.startswith("spec.nodes") for line in problems(caught.value))


def test_f06_empty_exclude_is_refused_where_it_would_mean_every_node() -> None:
    policy = {**GOOD["policy"], "spec": {**GOOD["policy"]["spec"], "exclude": {"matchLabels": {}}}}
    with pytest.raises(ValidationError, match="would exclude every node"):
        DefenderPolicy.from_user(policy)


def test_unknown_field_is_a_mistake_of_a_person_and_passed_over_from_a_server() -> None:
    newer = {**GOOD["policy"], "metadata": {"name": "default", "managedFields": [{}], "new": 1}}
    newer["spec"] = {**newer["spec"], "smallPool": {"nodes": 5, "newer": {"x": 1}}}
    raw = DefenderPolicy.from_user(GOOD["policy"]).model_dump_json(by_alias=True)
    assert DefenderPolicy.from_server(json.dumps(newer).encode()).spec == (
        DefenderPolicy.from_server(raw.encode()).spec
    )
    with pytest.raises(ValidationError) as caught:
        DefenderPolicy.from_user(newer)
    assert [line.split(":")[0] for line in problems(caught.value)] == [
        "metadata.new",
        "spec.smallPool.newer",
    ]


def test_metadata_that_is_the_servers_is_not_written() -> None:
    assert default_policy().to_dict()["metadata"] == {"name": "default"}


def a_host_event(at: str) -> dict[str, Any]:
    spec = {"source": "Webhook", "externalID": "e", "class": "Maintenance", "node": {"name": "a"}}
    return {
        **{"apiVersion": "kubenode.io/v1alpha1", "kind": "HostEvent", "metadata": {"name": "x"}},
        "spec": spec | {"notBefore": at},
    }


@pytest.mark.parametrize(
    ("at", "year"),
    [
        ("0000-01-01T00:00:00Z", 1970),
        ("0001-01-01T00:00:00Z", 1970),
        ("1970-01-01T00:00:00Z", 1970),
        ("9999-12-31T23:59:59.999999Z", 9000),
    ],
)
def test_a_stored_time_out_of_bounds_is_read_as_the_nearest_one(at: str, year: int) -> None:
    event = HostEvent.from_server(json.dumps(a_host_event(at)).encode())
    assert event.spec.not_before is not None
    assert event.spec.not_before.year == year


def test_a_time_before_1970_is_refused_when_a_person_writes_it() -> None:
    with pytest.raises(ValidationError, match="is before 1970"):
        read(a_host_event("0001-01-01T00:00:00Z"))
