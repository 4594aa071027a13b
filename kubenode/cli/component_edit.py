"""Settings of a site for an entry of the component library: version, source, values, selector."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pydantic import ValidationError

from kubenode.api.base import Resource
from kubenode.api.problems import problems
from kubenode.api.v1alpha1 import MachineComponent, MachineComponentSet
from kubenode.cli.component_library import LibraryComponent
from kubenode.cli.exits import Exit, Refusal

R = TypeVar("R", bound=Resource)
NO_DIGEST = "0" * 64
"""SHA-256 in an entry whose archive KubeNode does not know."""


@dataclass(frozen=True, slots=True)
class ComponentEdit:
    """Settings of a site. An empty one keeps what the entry has.

    packages: package name to its exact version.
    values: values of the set, in addition to those of the entry.
    selector: labels of the machines of the set.
    """

    version: str = ""
    url: str = ""
    sha256: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    selector: Mapping[str, str] = field(default_factory=dict)


def parse_pairs(given: Sequence[str], flag: str) -> dict[str, str]:
    """Parse the NAME=VALUE arguments of a flag. Raises Refusal that names the flag."""
    pairs = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not (key and equals):
            raise Refusal(f"{flag} {each}: write NAME=VALUE", Exit.USAGE)
        pairs[key] = value
    return pairs


def edit_entry(entry: LibraryComponent, edit: ComponentEdit) -> LibraryComponent:
    """Return the entry with the settings of a site. Raises Refusal for settings it cannot have."""
    component, component_set = plain(entry.component), plain(entry.component_set)
    spec = component["spec"]
    old, new = spec["version"], edit.version or spec["version"]
    spec["version"] = new
    component["metadata"]["name"] = f"{spec['component']}-{new}"
    _edit_source(entry.name, spec["source"], edit, old, new)
    for check in spec.get("health", ()):
        if "exec" in check:
            check["exec"] = [new if word == old else word for word in check["exec"]]
    set_spec = component_set["spec"]
    set_spec["component"] = component["metadata"]["name"]
    set_spec["values"] = _values(entry.name, set_spec.get("values", {}), edit.values)
    if edit.selector:
        set_spec["selector"] = {"matchLabels": dict(edit.selector)}
    return replace(
        entry,
        component=_valid(MachineComponent, component),
        component_set=_valid(MachineComponentSet, component_set),
    )


def require_digest(entry: LibraryComponent) -> None:
    """Raise Refusal if the entry has no digest of its archive yet."""
    tarball = entry.component.spec.source.tarball
    if tarball is not None and tarball.sha256 == NO_DIGEST:
        raise Refusal(
            f"{entry.name}: source.tarball.sha256: the digest of {tarball.url} is missing: take it"
            " from a source that you trust, and pass --sha256",
            Exit.USAGE,
        )


def plain(resource: Resource) -> dict[str, Any]:
    """Return the object with the fields that its author wrote."""
    return resource.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)


def _edit_source(
    name: str, source: dict[str, Any], edit: ComponentEdit, old: str, new: str
) -> None:
    if (tarball := source.get("tarball")) is not None:
        if new != old:
            tarball |= {"url": tarball["url"].replace(old, new), "sha256": NO_DIGEST}
        tarball |= {k: v for k, v in (("url", edit.url), ("sha256", edit.sha256)) if v}
    elif edit.url or edit.sha256:
        raise Refusal(f"{name} comes from packages: pass --package, not --url", Exit.USAGE)
    packages = source.get("apt", {}).get("packages", [])
    if unknown := edit.packages.keys() - {package["name"] for package in packages}:
        named = ", ".join(package["name"] for package in packages) or "no packages"
        raise Refusal(f"--package {min(unknown)}: {name} has {named}", Exit.USAGE)
    for package in packages:
        package["version"] = _package_version(name, package, edit, old, new)


def _package_version(
    name: str, package: Mapping[str, str], edit: ComponentEdit, old: str, new: str
) -> str:
    """Return the version of a package. That of a distribution does not follow from ours."""
    known = package["version"]
    if package["name"] in edit.packages:
        return edit.packages[package["name"]]
    if known == old:
        return new
    if new == old:
        return known
    raise Refusal(
        f"{name}: source.apt.packages: {package['name']} {known} is not version {new}: pass"
        f" --package {package['name']}=VERSION with the version that the package source has",
        Exit.USAGE,
    )


def _values(name: str, known: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    if unknown := given.keys() - known.keys():
        has = ", ".join(known) or "no values"
        raise Refusal(f"--set-value {min(unknown)}: {name} has {has}", Exit.USAGE)
    return {**known, **given}


def _valid(kind: type[R], data: Mapping[str, Any]) -> R:
    try:
        return kind.from_user(data)
    except ValidationError as error:
        raise Refusal(problems(error, kind)[0], Exit.USAGE) from error
