import pytest

from kubenode.runtime.kube import errors
from kubenode.runtime.kube.errors import (
    AlreadyExists,
    Conflict,
    KubeError,
    ServerUnreachable,
    error_for,
)


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (400, "BadRequest", errors.BadRequest),
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", errors.Gone),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.TooManyRequests),
        (418, "", KubeError),
        (500, "InternalError", KubeError),
    ],
)
def test_every_answer_has_its_class(status: int, reason: str, kind: type[KubeError]) -> None:
    assert type(error_for(status, reason)) is kind


def test_a_taken_name_is_a_conflict() -> None:
    assert issubclass(AlreadyExists, Conflict)


def test_the_text_says_what_was_tried_and_what_was_answered() -> None:
    error = error_for(404, "NotFound", "nodes n1 not found", tried="GET /api/v1/nodes/n1")
    assert str(error) == "GET /api/v1/nodes/n1: 404 NotFound: nodes n1 not found"
    assert str(KubeError(500)) == "500"
    lost = ServerUnreachable("TimeoutError", tried="POST /x")
    assert (lost.status, str(lost)) == (0, "POST /x: Unreachable: TimeoutError")
