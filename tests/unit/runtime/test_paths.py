import pytest

from kubenode.runtime.kube import paths


def test_paths_are_those_of_the_api() -> None:
    assert paths.nodes() == "/api/v1/nodes"
    assert paths.node("n1", "status") == "/api/v1/nodes/n1/status"
    assert paths.pods() == "/api/v1/pods"
    assert paths.eviction("ns", "p") == "/api/v1/namespaces/ns/pods/p/eviction"
    assert paths.lease("ns", "l") == "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l"
    assert (
        paths.custom("remedyoperationjobs", "j", "status")
        == "/apis/kubenode.io/v1alpha1/remedyoperationjobs/j/status"
    )


def test_a_name_cannot_lead_elsewhere() -> None:
    assert paths.node("../pods?x=1") == "/api/v1/nodes/..%2Fpods%3Fx%3D1"


def test_an_empty_name_is_refused_as_it_would_address_them_all() -> None:
    with pytest.raises(ValueError, match="whole collection nodes"):
        paths.node("")
