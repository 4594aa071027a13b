"""Signs rules at admission: who last changed the spec, and who accepted the blast radius.

The webhook only writes names. The admission policies of the chart (remedy/words.yaml,
remedy/authors.yaml) reject a wrong or missing name, also while no replica answers.
"""

from typing import Any

from kubenode.runtime.admission.review import AdmissionVerdict, BadReview, answer, read
from remedy.registry.radius import ACCEPT, ACCEPTED_BY, AUTHOR
from remedy.webhook.annotations import Obj, annotation_patch, annotations, mapping

PATH = "/mutate/noderemediers"
RESOURCE = "noderemediers.kubenode.io"


class RuleSigner:
    """Answers AdmissionReviews about who wrote a NodeRemedier."""

    async def answer(self, raw: bytes, seconds: float) -> dict[str, Any]:
        """Build the body of the reply. Raises BadReview."""
        review = read(raw)
        if review.resource != RESOURCE:
            raise BadReview(f"request.resource: {review.resource!r} is not {RESOURCE}")
        if review.object is None or review.sub_resource or not review.user:
            return answer(review.uid, AdmissionVerdict(True))
        patch = sign_rule(review.object, review.old, review.user)
        return answer(review.uid, AdmissionVerdict(True, patch=patch))


def sign_rule(new: Obj, old: Obj | None, user: str) -> tuple[Obj, ...]:
    """Build the JSON patch that writes the names; `old` is None when the rule is created."""
    given, before = annotations(new), annotations(old or {})
    names = {
        AUTHOR: _author(new, old, given, before, user),
        ACCEPTED_BY: _acceptor(given, before, user),
    }
    changes = {key: name for key, name in names.items() if name != given.get(key, "")}
    return tuple(annotation_patch(new, changes))


def _author(new: Obj, old: Obj | None, given: Obj, before: Obj, user: str) -> str:
    """Return the author: who changes more than the mode. A rule without a recorded author may be
    claimed by one.
    """
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
    return {key: value for key, value in mapping(rule.get("spec")).items() if key != "mode"}
