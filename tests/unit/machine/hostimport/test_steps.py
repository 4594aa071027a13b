"""How far a host has come, read from its Machine alone."""

from datetime import timedelta
from typing import Any

import pytest
from support.clock import T0

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import Machine
from machine.hostimport.steps import ImportStep, Name, StepMark, missing, steps

CERTIFICATE = {"bootstrap": {"certificateExpiresAt": format_time(T0 + timedelta(days=20))}}
REVISION = "1-0123456789"


def condition(type_: str, status: str, reason: str = "", message: str = "") -> dict[str, Any]:
    at = format_time(T0)
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": at,
    }


LEASE = condition("AgentReady", "True", "LeaseFresh")
NODE = condition("NodeReady", "True", "Ready")
SYNCED = condition("NodeSynced", "True", "Synced")
COMPONENTS = condition("ComponentsReady", "True", "Ready")


def a_machine(status: dict[str, Any], **spec: Any) -> Machine:
    return Machine.model_validate(
        {
            "apiVersion": "kubenode.io/v1alpha1",
            "kind": "Machine",
            "metadata": {"name": "m"},
            "spec": {"addresses": ["10.2.7.113"], **spec},
            "status": status,
        }
    )


def gap(status: dict[str, Any], *, installed: bool = False, **spec: Any) -> ImportStep | None:
    return missing(steps(a_machine(status, **spec), T0, installed=installed))


def name(status: dict[str, Any], *, installed: bool = False, **spec: Any) -> Name | None:
    found = gap(status, installed=installed, **spec)
    return None if found is None else found.name


def test_each_step_waits_for_what_comes_before_it() -> None:
    status: dict[str, Any] = {"phase": "Importing"}
    assert name(status) is Name.TOKEN
    status["bootstrap"] = {"tokenID": "abcdef"}
    assert name(status) is Name.AGENT
    assert name(status, installed=True) is Name.CERTIFICATE
    status |= CERTIFICATE
    assert name(status) is Name.LEASE
    status["conditions"] = [LEASE]
    assert name(status) is Name.NODE
    status["conditions"] = [LEASE, NODE]
    assert name(status) is Name.SYNCED
    status["conditions"] = [LEASE, NODE, SYNCED]
    assert name(status) is Name.COMPONENTS
    status["conditions"] = [LEASE, NODE, SYNCED, COMPONENTS]
    assert name(status) is Name.RUNNING
    status["phase"] = "Running"
    assert name(status) is None


def test_a_host_outside_kubernetes_waits_for_no_node() -> None:
    status = {**CERTIFICATE, "phase": "Importing", "conditions": [LEASE]}
    assert name(status, node="None") is Name.COMPONENTS


def test_an_observed_host_waits_for_no_labels() -> None:
    status = {**CERTIFICATE, "phase": "Importing", "conditions": [LEASE, NODE, COMPONENTS]}
    assert name(status) is Name.SYNCED
    assert name(status, mode="Observe") is Name.RUNNING


@pytest.mark.parametrize("reason", ["CertificateDenied", "CertificateExpired"])
def test_a_certificate_that_needs_a_person_says_so_in_the_operators_words(reason: str) -> None:
    said = condition("AgentReady", "False", reason, "say `kubenode machine reissue m`")
    found = gap({"bootstrap": {"tokenID": "abcdef"}, "conditions": [said]})
    assert found == ImportStep(
        Name.CERTIFICATE, StepMark.FAILED, "say `kubenode machine reissue m`"
    )


def test_a_certificate_that_is_over_is_none() -> None:
    ended = {"bootstrap": {"certificateExpiresAt": format_time(T0 - timedelta(seconds=1))}}
    assert name(ended, installed=True) is Name.CERTIFICATE


def test_a_label_that_another_holds_needs_a_person() -> None:
    said = condition("NodeSynced", "False", "LabelConflict", "pool is online, not edge")
    found = gap({**CERTIFICATE, "phase": "Initializing", "conditions": [LEASE, NODE, said]})
    assert found is not None
    assert (found.mark, found.why) == (StepMark.FAILED, "LabelConflict: pool is online, not edge")


def test_a_component_that_is_behind_is_named() -> None:
    wanted = {
        "name": "containerd",
        "component": "containerd-2.1.4",
        "revision": REVISION,
        "configHash": REVISION,
    }
    reported = {
        "name": "containerd",
        "revision": REVISION,
        "attempt": 1,
        "state": "Failed",
        "reason": "CheckFailed",
    }
    status = {**CERTIFICATE, "phase": "Initializing", "conditions": [LEASE, NODE, SYNCED]}
    found = gap(status, components=[wanted])
    assert found is not None and found.why == "containerd new"
    found = gap({**status, "components": [reported]}, components=[wanted])
    assert found is not None and found.why == "containerd Failed CheckFailed"


def test_a_machine_that_failed_says_why() -> None:
    said = condition("Healthy", "False", "StartupTimeout", "its host did not come within 20m")
    found = gap({"phase": "Failed", "conditions": [said], **CERTIFICATE})
    assert found is not None and found.mark is StepMark.FAILED
    assert "phase Failed: its host did not come within 20m" in found.why


def test_running_is_the_end_whatever_else_is_amiss() -> None:
    assert name({"phase": "Running", **CERTIFICATE}) is None
    assert name({"phase": "Updating", **CERTIFICATE}) is None
