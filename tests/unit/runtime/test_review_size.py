"""An AdmissionReview is refused by its size in memory, before it takes that memory."""

import msgspec
import pytest

from kubenode.runtime.admission.review import MOST_VALUES, BadReview, read


def a_review(spec: object) -> bytes:
    request = {"uid": "u", "operation": "CREATE", "object": {"spec": spec}}
    head = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return msgspec.json.encode({**head, "request": request})


@pytest.mark.parametrize("value", [[], {}, 1], ids=["lists", "objects", "numbers"])
def test_a_review_of_millions_of_values_is_refused_before_it_is_read(value: object) -> None:
    with pytest.raises(BadReview, match=f"at most {MOST_VALUES}"):
        read(a_review([value] * (MOST_VALUES + 1)))


def test_a_large_text_is_one_value() -> None:
    assert read(a_review({"script": "x" * 3 * 2**20})).object
