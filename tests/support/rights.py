"""What RBAC lets a user do, asked of a real API server in one call."""

import json
from collections.abc import Sequence
from typing import Any

from support.control_plane import ControlPlane

Question = tuple[str, str, str, str, str]
"""Verb, API group, resource or resource/subresource, namespace, name; "" is any or none."""


def allowed(
    cp: ControlPlane, user: str, questions: Sequence[Question], groups: Sequence[str] = ()
) -> list[bool]:
    """The answer to each question, in their order; the user is a member of `groups`."""
    reviews = [_review(user, groups, *question) for question in questions]
    listed = {"apiVersion": "v1", "kind": "List", "items": reviews}
    said = cp.kubectl("create", "-f", "-", "-o", "json", stdin=json.dumps(listed))
    answers = [bool(item["status"]["allowed"]) for item in _objects(said.stdout)]
    assert len(answers) == len(questions)
    return answers


def wrong(
    cp: ControlPlane,
    user: str,
    may: Sequence[Question],
    may_not: Sequence[Question],
    groups: Sequence[str] = (),
) -> list[tuple[Question, bool]]:
    """Questions with another answer than they should have, and that answer."""
    wanted = [True] * len(may) + [False] * len(may_not)
    asked = [*may, *may_not]
    answers = allowed(cp, user, asked, groups)
    return [
        (q, is_) for q, is_, ought in zip(asked, answers, wanted, strict=True) if is_ is not ought
    ]


def _review(
    user: str,
    groups: Sequence[str],
    verb: str,
    group: str,
    resource: str,
    namespace: str,
    name: str,
) -> dict[str, Any]:
    plural, _, sub = resource.partition("/")
    about = {"verb": verb, "group": group, "resource": plural, "subresource": sub}
    attributes = {**about, "namespace": namespace, "name": name}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "groups": list(groups), "resourceAttributes": attributes},
    }


def _objects(text: str) -> list[dict[str, Any]]:
    """kubectl prints one List, or one object after the other."""
    found: list[dict[str, Any]] = []
    decoder = json.JSONDecoder()
    while text := text.lstrip():
        one, end = decoder.raw_decode(text)
        found += one["items"] if one["kind"] == "List" else [one]
        text = text[end:]
    return found
