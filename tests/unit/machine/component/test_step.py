"""Whether a component can be used at all, and whether it has to stay."""

from typing import Any

import pytest

from kubenode.runtime.components.wire import ComponentSpec, spec_of
from machine.component.step import FINALIZER, finalizers, valid

APT = {"type": "apt", "apt": {"packages": [{"name": "p", "version": "1"}]}}


def a_spec(source: dict[str, Any] = APT, text: str = "") -> ComponentSpec:
    files = [{"path": "/etc/c", "content": {"inline": text}}]
    return spec_of({"component": "c", "version": "1", "source": source, "files": files})


def test_a_sound_component_is_valid() -> None:
    assert valid(a_spec(text="${values.x} ${machine.zone} $${y}")).status == "True"


@pytest.mark.parametrize("text", ["${machine.colour}", "${x}", "${values.x"])
def test_a_placeholder_that_nothing_can_fill_is_named(text: str) -> None:
    said = valid(a_spec(text=text))
    assert (said.status, said.reason) == ("False", "BadTemplate") and "/etc/c" in said.message


@pytest.mark.parametrize(
    "source",
    [
        {"type": "apt", "apt": {"packages": [{"name": "p", "version": v} for v in "12"]}},
        {"type": "oci", "oci": {"ref": "r/i@sha256:0", "dest": "/etc"}},
        {"type": "tarball", "tarball": {"url": "https://h/t", "sha256": "0", "dest": "/opt/../x"}},
    ],
)
def test_a_source_that_no_host_can_use_is_refused(source: dict[str, Any]) -> None:
    said = valid(a_spec(source))
    assert (said.status, said.reason) == ("False", "BadSource") and said.message


def test_it_is_kept_while_it_is_used() -> None:
    assert finalizers([], deleting=False, used=True) == [FINALIZER]
    assert finalizers([FINALIZER], deleting=True, used=True) == [FINALIZER]
    assert finalizers([FINALIZER, "x"], deleting=True, used=False) == ["x"]
    assert finalizers([FINALIZER], deleting=False, used=False) == [FINALIZER]
    assert finalizers([], deleting=True, used=True) == [], "none can be added any more"
