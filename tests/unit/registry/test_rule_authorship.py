"""Who wrote a rule and who accepted its blast radius is written by admission."""

import base64
import json
from typing import Any

import pytest
from support.webhook_world import a_review, a_spec, an_object

from kubenode.runtime.admission.review import BadReview
from remedy.webhook.authorship import RuleSigner, sign_rule

AUTHOR, ACCEPT = "kubenode.io/author", "kubenode.io/accept-blast-radius"
BY = "kubenode.io/accepted-by"


def rule(more: dict[str, Any] | None = None, /, **annotations: str) -> dict[str, Any]:
    keys = {f"kubenode.io/{key.replace('_', '-')}": text for key, text in annotations.items()}
    made = an_object("r", a_spec(**(more or {})))
    return {**made, "metadata": {"name": "r", "annotations": keys}}


def signed(new: dict[str, Any], old: dict[str, Any] | None, user: str) -> dict[str, str]:
    """The annotations of the rule as it is stored."""
    found = dict(new["metadata"].get("annotations") or {})
    for change in sign_rule(new, old, user):
        key = change["path"].removeprefix("/metadata/annotations").lstrip("/").replace("~1", "/")
        if change["op"] == "remove":
            del found[key]
        elif key:
            found[key] = change["value"]
    return found


def test_whoever_creates_a_rule_is_its_author_whatever_was_written() -> None:
    assert signed(rule(), None, "alice") == {AUTHOR: "alice"}
    assert signed(rule(author="bob"), None, "alice") == {AUTHOR: "alice"}


def test_annotations_are_made_where_there_are_none() -> None:
    bare = {**rule(), "metadata": {"name": "r"}}
    assert sign_rule(bare, None, "alice")[0]["path"] == "/metadata/annotations"
    assert signed(bare, None, "alice") == {AUTHOR: "alice"}


def test_whoever_changes_the_spec_becomes_the_author_and_the_mode_is_no_change() -> None:
    old = rule(author="alice")
    assert signed(rule({"cooldown": "1h"}, author="alice"), old, "bob")[AUTHOR] == "bob"
    assert signed(rule({"mode": "DryRun"}, author="alice"), old, "bob")[AUTHOR] == "alice"


@pytest.mark.parametrize("written", [{}, {"author": "bob"}, {"author": "carol"}])
def test_an_author_stays_while_the_spec_does(written: dict[str, str]) -> None:
    assert signed(rule(**written), rule(author="alice"), "bob") == {AUTHOR: "alice"}


def test_a_rule_without_a_recorded_author_is_claimed_by_oneself_alone() -> None:
    assert signed(rule(author="bob"), rule(), "bob") == {AUTHOR: "bob"}
    assert signed(rule(author="carol"), rule(), "bob") == {}


def test_whoever_accepts_a_blast_radius_is_named_whatever_was_written() -> None:
    old = rule(author="alice")
    new = rule(author="alice", accept_blast_radius="12", accepted_by="carol")
    assert signed(new, old, "bob") == {AUTHOR: "alice", ACCEPT: "12", BY: "bob"}
    higher = rule(author="alice", accept_blast_radius="50", accepted_by="bob")
    assert signed(higher, rule(accept_blast_radius="12", accepted_by="bob"), "alice")[BY] == "alice"


def test_an_acceptors_name_stays_and_goes_with_the_acceptance() -> None:
    old = rule(author="alice", accept_blast_radius="12", accepted_by="bob")
    kept = rule(author="alice", accept_blast_radius="12", accepted_by="alice")
    assert signed(kept, old, "alice")[BY] == "bob"
    assert signed(rule(author="alice", accepted_by="bob"), old, "alice") == {AUTHOR: "alice"}


async def test_the_answer_is_a_json_patch_and_never_a_refusal() -> None:
    body = await RuleSigner().answer(a_review(rule()), 1.0)
    response = body["response"]
    assert response["allowed"]
    assert json.loads(base64.b64decode(response["patch"])) == [
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": "/metadata/annotations/kubenode.io~1author", "value": "alice"},
    ]


async def test_a_review_of_another_kind_is_a_bad_one() -> None:
    with pytest.raises(BadReview, match="is not noderemediers"):
        await RuleSigner().answer(a_review(rule(), resource="nodes"), 1.0)


@pytest.mark.parametrize("odd", [{"metadata": 3}, {"metadata": {"annotations": [1]}}, {"spec": 1}])
def test_what_the_schema_refuses_is_survived(odd: dict[str, Any]) -> None:
    sign_rule({**rule(), **odd}, odd, "alice")
