"""What `kubenode machine show` says of one Machine."""

from datetime import timedelta

from support.clock import T0

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import Machine
from kubenode.cli.machine_show import row


def test_ends_of_both_certificates_are_shown() -> None:
    status = {
        "bootstrap": {
            "certificateExpiresAt": format_time(T0 + timedelta(days=20)),
            "kubelet": {"certificateExpiresAt": format_time(T0 - timedelta(days=1))},
        }
    }
    machine = Machine.model_validate(
        {
            "apiVersion": "kubenode.io/v1alpha1",
            "kind": "Machine",
            "metadata": {"name": "m"},
            "spec": {"addresses": ["10.2.7.113"]},
            "status": status,
        }
    )
    shown = row(machine, T0)
    assert shown["certificate"] == "20d"
    assert shown["kubelet"] == f"ended {format_time(T0 - timedelta(days=1))}"
    assert row(machine.model_copy(update={"status": type(machine.status)()}), T0)["kubelet"] == ""
