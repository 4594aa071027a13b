"""What a Machine remembers of certificates, and of which node it speaks."""

from datetime import timedelta
from typing import Any

import pytest
from support.clock import T0

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import Machine
from kubenode.runtime.kube.objects import KubeObjectMeta
from machine.certificates.kinds import AGENT, KUBELET, SERVING, CertificateKind
from machine.certificates.records import node_of, owner_of, remembered, reserved_for
from machine.certificates.wire import (
    APPROVED,
    FAILED,
    RequestCondition,
    RequestStatus,
    SigningRequest,
)

LATER = format_time(T0 + timedelta(hours=1))


def a_machine(bootstrap: dict[str, Any] | None = None, **spec: Any) -> Machine:
    return Machine.model_validate(
        {
            "apiVersion": "kubenode.io/v1alpha1",
            "kind": "Machine",
            "metadata": {"name": "m", "annotations": {"kubenode.io/reissue": "1"}},
            "spec": {"addresses": ["10.2.7.113", "FD00:0::7"], **spec},
            "status": {"bootstrap": bootstrap} if bootstrap else {},
        }
    )


def a_request(*conditions: str) -> SigningRequest:
    found = [RequestCondition(type=type_, status="True") for type_ in conditions]
    meta = KubeObjectMeta(name="csr", uid="u-1", creation_timestamp=T0)
    return SigningRequest(meta, status=RequestStatus(conditions=found))


@pytest.mark.parametrize(
    ("spec", "node"), [({}, "m"), ({"nodeName": "n"}, "n"), ({"node": "None"}, "")]
)
def test_a_machine_speaks_of_its_node(spec: dict[str, Any], node: str) -> None:
    assert node_of(a_machine(**spec)) == node


def test_a_kubelet_serves_as_the_machine_says_and_as_nothing_else() -> None:
    owner = owner_of(a_machine(nodeName="n"), SERVING)
    assert owner.serves == {"n", "10.2.7.113", "fd00::7"}


@pytest.mark.parametrize("kind", [AGENT, KUBELET])
def test_a_token_gives_each_kind_once_and_one_is_not_taken_for_the_other(
    kind: CertificateKind,
) -> None:
    other = KUBELET if kind is AGENT else AGENT
    change = reserved_for(a_request(), a_machine(), kind, T0)
    machine = a_machine(change["bootstrap"])
    mine, its = owner_of(machine, kind), owner_of(machine, other)
    assert mine.request_id == "u-1" and mine.expires_at == T0 + kind.longest
    assert not mine.reissue, "the word of a person counts once"
    assert (its.request_id, its.expires_at, its.reissue) == ("", None, True)
    assert reserved_for(a_request(), machine, kind, T0) == {}, "who died goes on"


def test_what_could_not_be_signed_is_taken_back() -> None:
    machine = a_machine(reserved_for(a_request(), a_machine(), KUBELET, T0)["bootstrap"])
    change = remembered(machine, a_request(APPROVED, FAILED), KUBELET)
    assert change == {"bootstrap": {"kubelet": {"requestID": "", "certificateExpiresAt": None}}}
    unknown = a_machine({"kubelet": {"certificateExpiresAt": LATER}})
    assert remembered(unknown, a_request(APPROVED, FAILED), KUBELET) == {}


def test_certificates_of_servers_are_not_remembered() -> None:
    assert remembered(a_machine(), a_request(APPROVED), SERVING) == {}
