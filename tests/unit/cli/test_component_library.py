"""The component library: entries are valid, complete and in order, and follow edits of a site."""

import json
import re
import tomllib
from collections.abc import Callable
from typing import Any

import pytest
from ruamel.yaml import YAML

from kubenode.api.meta import ConditionStatus
from kubenode.api.v1alpha1 import MachineComponent
from kubenode.cli.component_edit import NO_DIGEST, ComponentEdit, edit_entry, require_digest
from kubenode.cli.component_library import LibraryComponent, component_library, find_entry
from kubenode.cli.component_list import list_library, show_entry
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.options import Listing
from kubenode.runtime.components.render import RenderedFile, RenderedFiles, rendered
from kubenode.runtime.components.versions import satisfies
from kubenode.runtime.components.wire import ComponentSpec, spec_of
from machine.component.step import valid

LIBRARY = component_library()
EVERY_ENTRY = pytest.mark.parametrize("entry", LIBRARY.values(), ids=LIBRARY)
WANTED = {"agent", "chrony", "cni", "containerd", "crictl", "kube-proxy", "kubelet", "runc"}
WANTED |= {"node-exporter", "node-problem-detector"}
DIGEST = "ab" * 32
MACHINE = {
    "name": "m1",
    "node": "m1",
    "address": "10.0.0.7",
    "nodeLabels": "pool=online",
    "nodeTaints": "kubenode.io/uninitialized=:NoSchedule",
    "labels.pod-block": "7",
}
"""Values of a machine with `node: Join`, as docs/node-join.md imports it."""
READERS: dict[str, Callable[[str], Any]] = {
    ".conflist": json.loads,
    ".toml": tomllib.loads,
    ".yaml": YAML(typ="safe", pure=True).load,
    ".conf": YAML(typ="safe", pure=True).load,
}


def spec_wire(component: MachineComponent) -> ComponentSpec:
    return spec_of(component.spec.model_dump(mode="json", by_alias=True))


def files_of(entry: LibraryComponent) -> RenderedFiles:
    """Render the files of an entry with the values of its own set."""
    spec = spec_wire(entry.component)
    return rendered(spec, entry.component_set.spec.values, MACHINE, {})


def test_the_library_has_a_component_for_each_program_of_a_node() -> None:
    families = {entry.component.spec.component for entry in LIBRARY.values()}
    assert {family.removeprefix("kubenode-") for family in families} == WANTED


@EVERY_ENTRY
def test_an_entry_is_valid_and_its_set_assigns_it(entry: LibraryComponent) -> None:
    spec = entry.component.spec
    assert valid(spec_wire(entry.component)).status is ConditionStatus.TRUE
    assert entry.component.metadata.name == f"{spec.component}-{spec.version}"
    assert entry.component_set.spec.component == entry.component.metadata.name
    assert entry.component_set.metadata.name == spec.component
    assert entry.name.removesuffix(f"-{spec.source.type.value}") == spec.component
    assert spec.health, "a rollout needs a check"


@EVERY_ENTRY
def test_an_entry_says_how_it_was_tested(entry: LibraryComponent) -> None:
    assert re.search(r"Tested with .+\.$|Not run in our tests: .+\.$", entry.description)


@EVERY_ENTRY
def test_the_files_of_an_entry_can_be_read_by_their_program(entry: LibraryComponent) -> None:
    for file in files_of(entry).files:
        suffix = "." + file.path.rpartition(".")[2]
        if suffix in READERS:
            assert READERS[suffix](file.content)
    names = {value for value in entry.component_set.spec.values if "$" not in value}
    texts = "".join(f.content.inline or "" for f in spec_wire(entry.component).files)
    assert all(f"${{values.{name}}}" in texts for name in names), "a value without a use"


@EVERY_ENTRY
def test_a_unit_of_an_archive_starts_a_program_of_it(entry: LibraryComponent) -> None:
    spec = entry.component.spec
    if spec.source.tarball is None:
        return
    units = [f for f in files_of(entry).files if f.path.endswith(".service")]
    assert {unit.name for unit in spec.units} == {f.path.rpartition("/")[2] for f in units}
    assert all(program(unit).startswith(spec.source.tarball.dest) for unit in units)


def program(unit: RenderedFile) -> str:
    (start,) = (w for w in unit.content.splitlines() if w.startswith("ExecStart="))
    assert "WantedBy=" in unit.content, "it can be enabled"
    return start.removeprefix("ExecStart=").split()[0]


@EVERY_ENTRY
def test_an_entry_depends_on_entries_of_the_library_alone(entry: LibraryComponent) -> None:
    for needed in entry.component.spec.depends_on:
        others = [e.component.spec for e in LIBRARY.values()]
        versions = [o.version for o in others if o.component == needed.component]
        assert versions
        assert all(satisfies(version, needed.version) for version in versions)


@EVERY_ENTRY
def test_an_entry_without_a_digest_of_its_archive_is_not_installed(entry: LibraryComponent) -> None:
    if entry.component.spec.source.tarball is None:
        require_digest(entry)
        return
    with pytest.raises(Refusal, match=rf"{entry.name}: source\.tarball\.sha256: .* pass --sha256"):
        require_digest(entry)
    require_digest(edit_entry(entry, ComponentEdit(sha256=DIGEST)))


def test_another_version_changes_name_source_and_set() -> None:
    edited = edit_entry(find_entry("kubelet"), ComponentEdit(version="1.35.4", sha256=DIGEST))
    tarball = edited.component.spec.source.tarball
    assert tarball is not None
    assert tarball.url == "https://dl.k8s.io/v1.35.4/kubernetes-node-linux-amd64.tar.gz"
    assert edited.component.metadata.name == edited.component_set.spec.component == "kubelet-1.35.4"
    assert find_entry("kubelet").component.spec.version != "1.35.4", "the library stays as it is"


def test_the_digest_of_one_version_does_not_serve_another() -> None:
    first = edit_entry(find_entry("kubelet"), ComponentEdit(sha256=DIGEST))
    tarball = edit_entry(first, ComponentEdit(version="1.35.4")).component.spec.source.tarball
    assert tarball is not None
    assert tarball.sha256 == NO_DIGEST


def test_a_package_of_the_components_version_follows_it_and_so_does_its_check() -> None:
    spec = edit_entry(find_entry("kubenode-agent"), ComponentEdit(version="9.9.9")).component.spec
    assert spec.source.apt is not None
    assert [p.version for p in spec.source.apt.packages] == ["9.9.9"]
    assert [check.exec for check in spec.health] == [["/usr/lib/kubenode-agent/proven", "9.9.9"]]


def test_labels_and_values_of_a_site_are_those_of_the_set() -> None:
    edit = ComponentEdit(values={"maxPods": "30"}, selector={"pool": "batch"})
    spec = edit_entry(find_entry("kubelet"), edit).component_set.spec
    assert spec.selector.match_labels == {"pool": "batch"}
    assert spec.values["maxPods"] == "30"
    assert spec.values["clusterDNS"], "the others stay"


@pytest.mark.parametrize(
    ("name", "edit", "text"),
    [
        ("containerd", ComponentEdit(version="1.7.0"), "pass --package containerd=VERSION"),
        ("containerd", ComponentEdit(packages={"runc": "1"}), "--package runc: containerd has con"),
        ("containerd", ComponentEdit(sha256=DIGEST), "containerd comes from packages"),
        (
            "kubelet",
            ComponentEdit(values={"maxpods": "1"}),
            "--set-value maxpods: kubelet has clus",
        ),
        ("runc", ComponentEdit(values={"a": "1"}), "--set-value a: runc has no values"),
        ("kubelet", ComponentEdit(sha256="abc"), r"spec\.source\.tarball\.sha256"),
    ],
)
def test_a_setting_that_an_entry_cannot_have_is_refused_by_name(
    name: str, edit: ComponentEdit, text: str
) -> None:
    with pytest.raises(Refusal, match=text) as refusal:
        edit_entry(find_entry(name), edit)
    assert refusal.value.code is Exit.USAGE


def test_an_unknown_entry_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(Refusal, match="did you mean kubelet"):
        find_entry("kubelett")


def test_what_is_shown_can_be_read_back(capsys: pytest.CaptureFixture[str]) -> None:
    assert show_entry("kubelet", ComponentEdit(sha256=DIGEST)) is Exit.FINE
    text = capsys.readouterr().out
    assert "inline: |\n" in text, "files are readable"
    component, component_set = YAML(typ="safe", pure=True).load_all(text)
    assert MachineComponent.from_user(component).spec.source.tarball is not None
    assert component_set["spec"]["component"] == component["metadata"]["name"]


def test_the_list_names_each_entry_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert list_library(Listing.JSON) is Exit.FINE
    assert [item["name"] for item in json.loads(capsys.readouterr().out)] == sorted(LIBRARY)
