"""What the agent answers to a HostProbe is within the limits of the CRD."""

from agent.prober import bounded
from agent.probes import Value
from kubenode.api.structural import structural_schema
from kubenode.api.v1alpha1 import HostProbe


def test_a_large_answer_is_cut_to_what_the_api_server_accepts() -> None:
    status = structural_schema(HostProbe)["properties"]["status"]["properties"]
    limits = status["answer"]
    answer = bounded({f"field_{n}": "ä" * 5000 for n in range(100)})
    assert len(answer) == limits["maxProperties"]
    longest = limits["additionalProperties"]["maxLength"]
    assert all(len(str(value)) <= longest for value in answer.values())
    assert answer["field_0"] == "ä" * 510 + "…", "and it says that it was cut"


def test_numbers_and_truths_are_answered_as_they_are() -> None:
    answer: dict[str, Value] = {"used_pct": 40.5, "count": 3, "reached": True, "where": "/var"}
    assert bounded(answer) == answer
