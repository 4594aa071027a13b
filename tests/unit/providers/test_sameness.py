"""Whether a machine is the Node's, by its names."""

import pytest

from kubenode.providers.sameness import differs, differs_on_ec2, differs_on_ecs

ID = "i-0123456789abcdef0"
DNS = "ip-10-0-1-2.eu-west-1.compute.internal"


@pytest.mark.parametrize(
    ("node", "names", "same"),
    [
        ("worker-1", ["worker-1"], True),
        ("worker-1.shop.example", ["WORKER-1"], True),
        ("worker-1", ["", ""], True),
        ("worker-1", ["worker-2"], False),
        ("worker-1", ["", "worker-10"], False),
    ],
)
def test_one_of_the_names_must_be_the_nodes(node: str, names: list[str], same: bool) -> None:
    wrong = differs(node, names)
    assert (wrong == "") is same
    assert same or node in wrong


@pytest.mark.parametrize(
    ("node", "same"),
    [
        (DNS, True),
        ("ip-10-0-1-2.ec2.internal", True),
        (f"{ID}.eu-west-1.compute.internal", True),
        ("blue-42", True),
        ("ip-10-0-1-3.eu-west-1.compute.internal", False),
        ("i-0123456789abcdef1.eu-west-1.compute.internal", False),
    ],
)
def test_names_that_ec2_makes_are_held_to_it(node: str, same: bool) -> None:
    assert (differs_on_ec2(node, DNS, ID) == "") is same


@pytest.mark.parametrize(
    ("node", "hostname", "same"),
    [
        ("cn-hangzhou.10.0.1.2", "x", True),
        ("cn-hangzhou.10.0.1.3", "x", False),
        ("cn-hangzhou.i-bp1", "x", True),
        ("cn-hangzhou.i-bp2", "x", False),
        ("worker-1", "worker-1", True),
        ("worker-1", "", True),
        ("worker-1", "worker-2", False),
    ],
)
def test_names_that_ack_makes_are_held_to_it(node: str, hostname: str, same: bool) -> None:
    assert (differs_on_ecs(node, hostname, "i-bp1", ["10.0.1.2"]) == "") is same
