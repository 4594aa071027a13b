"""Signs rules at admission: who changed the spec last, and who accepted the blast radius.

The webhook only writes names. What refuses a wrong or a missing one are the admission policies of
the chart (remedy/words.yaml, remedy/authors.yaml), also while no replica answers.
"""

from collections.abc import Mapping
from typing import Any

from kubenode.runtime.admission.review import BadReview, Verdict, answer, read
from remedy.registry.radius import ACCEPT, ACCEPTED_BY, AUTHOR

PATH = "/mutate/noderemediers"
RESOURCE = "noderemediers.kubenode.io"
Obj = Mapping[str, Any]


class RuleSigner:
    """Answers AdmissionReviews about who wrote a NodeRemedier."""

    async def answer(self, raw: bytes, seconds: float) -> dict[str, Any]:
        """Build the body of the reply. Raises BadReview."""
        review = read(raw)
        if review.resource != RESOURCE:
            raise BadReview(f"request.resource: {review.resource!r} is not {RESOURCE}")
        if review.object is None or review.sub_resource or not review.user:
            return answer(review.uid, Verdict(True))
        patch = sign_rule(review.object, review.old, review.user)
        return answer(review.uid, Verdict(True, patch=patch))


def sign_rule(new: Obj, old: Obj | None, user: str) -> tuple[Obj, ...]:
    """Build the JSON patch that writes the names; `old` is None when the rule is created."""
    given, before = _annotations(new), _annotations(old or {})
    names = {
        AUTHOR: _author(new, old, given, before, user),
        ACCEPTED_BY: _acceptor(given, before, user),
    }
    changes = {key: name for key, name in names.items() if name != given.get(key, "")}
    patch: list[Obj] = []
    if changes and not given:
        patch.append({"op": "add", "path": "/metadata/annotations", "value": {}})
    for key, name in changes.items():
        path = f"/metadata/annotations/{key.replace('/', '~1')}"
        if name:
            patch.append({"op": "add", "path": path, "value": name})
        else:
            patch.append({"op": "remove", "path": path})
    return tuple(patch)


def _author(new: Obj, old: Obj | None, given: Obj, before: Obj, user: str) -> str:
    """Whoever changes more than the mode; a rule of before this record may be claimed by one."""
    if old is None or _content(new) != _content(old):
        return user
    if recorded := str(before.get(AUTHOR, "")):
        return recorded
    return user if given.get(AUTHOR) == user else ""


def _acceptor(given: Obj, before: Obj, user: str) -> str:
    accepted = given.get(ACCEPT, "")
    if not accepted:
        return ""
    return user if accepted != before.get(ACCEPT, "") else str(before.get(ACCEPTED_BY, ""))


def _content(rule: Obj) -> dict[str, Any]:
    return {key: value for key, value in _mapping(rule.get("spec")).items() if key != "mode"}


def _annotations(rule: Obj) -> Obj:
    found = _mapping(_mapping(rule.get("metadata")).get("annotations"))
    return {key: text for key, text in found.items() if isinstance(text, str)}


def _mapping(value: Any) -> Obj:
    """Return `value`, or an empty mapping for another type, which the schema refuses later."""
    return value if isinstance(value, Mapping) else {}
