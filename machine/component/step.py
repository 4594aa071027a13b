"""Decide whether a MachineComponent is valid, and whether it must stay. Pure."""

from collections import Counter
from pathlib import PurePosixPath

from kubenode.api.conditions import ConditionUpdate
from kubenode.api.meta import ConditionStatus
from kubenode.api.v1alpha1.machinecomponent import MachineComponentConditionReason as Reason
from kubenode.runtime.components.render import TemplateError, list_placeholders
from kubenode.runtime.components.wire import ComponentSpec, WireComponentSource

FINALIZER = "kubenode.io/component"


def valid(spec: ComponentSpec) -> ConditionUpdate:
    """Return condition Valid, as far as it can be determined without a machine."""
    if bad := bad_source(spec.source):
        return ConditionUpdate(ConditionStatus.FALSE, Reason.BAD_SOURCE, bad)
    try:
        list_placeholders(spec)
    except TemplateError as error:
        return ConditionUpdate(ConditionStatus.FALSE, Reason.BAD_TEMPLATE, str(error))
    return ConditionUpdate(ConditionStatus.TRUE, "Valid", "")


def bad_source(source: WireComponentSource) -> str:
    """Return why no host can install the source, "" if one can."""
    packages = source.apt or source.dnf
    if packages is not None:
        counts = Counter(package.name for package in packages.packages)
        twice = sorted(name for name, count in counts.items() if count > 1)
        if twice:
            return f"source.{source.type}: {twice[0]} is listed twice: name each package once"
    unpacked = source.tarball or source.oci
    if unpacked is not None:
        path = PurePosixPath(unpacked.dest)
        if ".." in path.parts or len(path.parts) < 3:
            return (
                f"source.{source.type}.dest: {unpacked.dest} is no folder of its own: write one"
                " such as /opt/NAME, without `..`"
            )
    return ""


def finalizers(known: list[str], *, deleting: bool, used: bool) -> list[str]:
    """Return the finalizers. Ours stays while a Machine or a revision names the component."""
    others = [f for f in known if f != FINALIZER]
    if used:
        return known if FINALIZER in known or deleting else [*known, FINALIZER]
    return known if not deleting else others
