"""`kubenode component library install`, against the embedded API server."""

import json
from collections.abc import Iterator

import pytest
from support.command import kubenode
from support.embedded import EmbeddedPlane

pytestmark = pytest.mark.integration
DIGEST = "ab" * 32


@pytest.fixture(scope="module")
def plane() -> Iterator[EmbeddedPlane]:
    with EmbeddedPlane() as plane:
        assert kubenode("install", "--kubeconfig", plane.kubeconfig).returncode == 0
        yield plane


def install(plane: EmbeddedPlane, *arguments: str, code: int = 0) -> str:
    command = ["component", "library", "install", *arguments]
    done = kubenode(*command, "--kubeconfig", plane.kubeconfig)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def names(plane: EmbeddedPlane, plural: str) -> set[str]:
    items = plane.get(f"/apis/kubenode.io/v1alpha1/{plural}")["items"]
    return {item["metadata"]["name"] for item in items}


def test_a_component_is_stored_without_a_set_and_then_with_one(plane: EmbeddedPlane) -> None:
    assert "created (dry run)" in install(plane, "runc", "--dry-run")
    assert "runc-1.1.5" not in names(plane, "machinecomponents")
    text = install(plane, "runc")
    assert "MachineComponent runc-1.1.5 created" in text
    assert "no set assigns it yet: pass --selector" in text
    assert "runc" not in names(plane, "machinecomponentsets"), "nothing is rolled out unasked"
    text = install(plane, "runc", "--selector", "pool=online")
    assert "MachineComponent runc-1.1.5 unchanged" in text
    assert "MachineComponentSet runc created" in text
    assert "MachineComponentSet runc unchanged" in install(
        plane, "runc", "--selector", "pool=online"
    )


def test_what_a_person_wrote_is_left_alone(plane: EmbeddedPlane) -> None:
    site = ("--selector", "pool=online")
    install(plane, "crictl", "--sha256", DIGEST, *site)
    patch = json.dumps({"spec": {"paused": True}})
    plane.kubectl("patch", "kncs", "crictl", "--type=merge", "-p", patch)
    text = install(plane, "crictl", "--sha256", DIGEST, *site, code=1)
    assert "MachineComponentSet crictl left alone" in text
    assert "`kubenode component plan crictl --component crictl-1.37.0`" in text
    text = install(plane, "crictl", "--sha256", DIGEST[::-1], code=1)
    assert "MachineComponent crictl-1.37.0 left alone: it exists with other content" in text


def test_f39_a_kubelet_that_the_api_server_is_too_old_for_is_refused(plane: EmbeddedPlane) -> None:
    text = install(plane, "kubelet", "--sha256", DIGEST, "--version", "1.99.0", code=1)
    assert "kubelet 1.99.0 is newer than the API server" in text
    assert not any(name.startswith("kubelet") for name in names(plane, "machinecomponents"))
