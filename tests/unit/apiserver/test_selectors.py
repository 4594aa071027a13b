"""Selectors select what a real server selects, and refuse what it refuses."""

import pytest

from simulation.apiserver.errors import ApiError, Obj
from simulation.apiserver.registry import Registry
from simulation.apiserver.selectors import Selection, label_selector, parse_fields, parse_labels

PODS = Registry().named("pods")
LABELS = {"app": "db", "tier": "back", "example.com/rank": "7"}


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("app=db", True),
        ("app==db", True),
        ("app=web", False),
        ("app!=web", True),
        ("app!=db", False),
        ("missing!=x", True),
        ("app", True),
        ("missing", False),
        ("!missing", True),
        ("!app", False),
        ("app in (web, db)", True),
        ("app in (web)", False),
        ("app notin (web),tier=back", True),
        ("missing notin (x)", True),
        ("app=db,tier=front", False),
        ("example.com/rank=7", True),
        ("example.com/rank>6", True),
        ("example.com/rank<7", False),
        ("missing>1", False),
        ("missing=", False),
        ("  app = db , tier", True),
    ],
)
def test_label_terms_select_as_the_grammar_says(text: str, selected: bool) -> None:
    test = parse_labels(text)
    assert test is not None
    assert test(LABELS) is selected


@pytest.mark.parametrize("text", ["", "   "])
def test_an_empty_label_selector_selects_everything(text: str) -> None:
    assert parse_labels(text) is None


@pytest.mark.parametrize("text", ["app=db,", "=db", "app in db", "a b", "app=-bad-", ",app", "!"])
def test_what_is_no_label_selector_is_refused(text: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_labels(text)
    assert caught.value.code == 400


@pytest.mark.parametrize(
    ("expression", "selected"),
    [
        ({"key": "app", "operator": "In", "values": ["db", "web"]}, True),
        ({"key": "app", "operator": "NotIn", "values": ["db"]}, False),
        ({"key": "missing", "operator": "NotIn", "values": ["db"]}, True),
        ({"key": "app", "operator": "Exists"}, True),
        ({"key": "missing", "operator": "Exists"}, False),
        ({"key": "missing", "operator": "DoesNotExist"}, True),
        ({"key": "app", "operator": "DoesNotExist"}, False),
    ],
)
def test_match_expressions_select(expression: Obj, selected: bool) -> None:
    assert label_selector({"matchExpressions": [expression]})(LABELS) is selected


def test_labels_and_expressions_must_all_hold() -> None:
    expression = {"key": "tier", "operator": "Exists"}
    selector = {"matchLabels": {"app": "db"}, "matchExpressions": [expression]}
    assert label_selector(selector)(LABELS)
    assert not label_selector(selector)({"app": "db"})


def test_no_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert not label_selector(None)(LABELS)
    assert label_selector({})(LABELS)


def test_an_unknown_operator_is_refused() -> None:
    with pytest.raises(ApiError, match="Near"):
        label_selector({"matchExpressions": [{"key": "app", "operator": "Near"}]})


def a_pod(name: str = "p", node: str = "n1", **spec: object) -> Obj:
    return {
        "metadata": {"name": name, "namespace": "one", "labels": {"app": "db"}},
        "spec": {"nodeName": node, **spec},
    }


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("spec.nodeName=n1", True),
        ("spec.nodeName!=n1", False),
        ("spec.nodeName==n2", False),
        ("metadata.name=p,spec.nodeName=n1", True),
        ("status.phase=", True),
        ("spec.hostNetwork=false", True),
        ("metadata.namespace=two", False),
    ],
)
def test_field_terms_select(text: str, selected: bool) -> None:
    assert Selection(fields=parse_fields(text, PODS)).matches(a_pod()) is selected


@pytest.mark.parametrize("text", ["spec.containers=x", "spec.nodeName", "nonsense", "a=b=c!"])
def test_a_field_that_the_kind_does_not_offer_is_refused(text: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_fields(text, PODS)
    assert caught.value.code == 400


def test_values_of_fields_may_be_escaped() -> None:
    (term,) = parse_fields(r"metadata.name=a\,b\=c\\d", PODS)
    assert term.value == r"a,b=c\d"


def test_a_selection_is_pinned_by_the_first_field_with_one_value() -> None:
    assert Selection(fields=parse_fields("spec.nodeName=n1", PODS)).pin == (
        ("spec", "nodeName"),
        "n1",
    )
    assert Selection(fields=parse_fields("spec.nodeName!=n1", PODS)).pin is None
    assert Selection(fields=parse_fields("spec.nodeName=", PODS)).pin is None


def test_namespace_name_and_labels_limit_a_selection_together() -> None:
    assert Selection("one", "p", parse_labels("app=db")).matches(a_pod())
    assert not Selection("two", "p").matches(a_pod())
    assert not Selection("one", "q").matches(a_pod())
    assert not Selection("one", labels=parse_labels("app=web")).matches(a_pod())
    assert Selection().everything
