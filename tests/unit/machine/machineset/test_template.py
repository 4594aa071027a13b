"""The Machine that a set creates from its template."""

import pytest

from kubenode.api.v1alpha1 import Machine, MachineSet
from machine.machineset.act import made_from


@pytest.mark.parametrize("node", ["Expected", "Join", "None"])
def test_a_machine_joins_as_the_template_of_its_set_says(node: str) -> None:
    labels = {"set": "s"}
    template = {"metadata": {"labels": labels}, "spec": {"classRef": "rack", "node": node}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    machine_set = MachineSet.from_user(
        {
            "apiVersion": "kubenode.io/v1alpha1",
            "kind": "MachineSet",
            "metadata": {"name": "s", "uid": "u1"},
            "spec": spec,
        }
    )
    machine = Machine.model_validate(made_from(machine_set, "", "s-1"))
    assert machine.spec.node == node
    assert machine.joins_by_token == (node == "Join")
