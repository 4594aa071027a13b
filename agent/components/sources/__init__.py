"""Sources of a component's files: packages, a tarball, an OCI artefact, a script."""

from agent.components.ports import Artefact, ComponentFileSource, ComponentPorts
from agent.components.sources.packages import PackageSource
from agent.components.sources.script import ScriptSource
from agent.components.sources.tree import TreeSource
from agent.host import Contraindicated
from kubenode.runtime.components import wire
from kubenode.runtime.duration import seconds


def source_of(
    version: str, source: wire.WireComponentSource, ports: ComponentPorts, name: str = ""
) -> ComponentFileSource:
    """Return the source of `version` of a component on this host.

    name: of the revision and attempt, by which an interrupted script is found again

    Raises Contraindicated if this host cannot use the source.
    """
    if (packages := source.apt or source.dnf) is not None:
        manager = ports.packages.get(source.type)
        if manager is None:
            known = ", ".join(sorted(ports.packages)) or "none"
            raise Contraindicated(
                f"source.type {source.type}: this host has {known}; write requires.os so that the"
                " component goes to hosts that can have it"
            )
        return PackageSource(version, packages, manager, seconds(packages.lock_wait))
    if (tarball := source.tarball) is not None:
        artefact = Artefact(tarball.url, tarball.sha256, tarball.dest, frozenset(tarball.allow))
        return TreeSource(version, artefact, ports.trees)
    if (oci := source.oci) is not None:
        digest = oci.ref.rpartition("@sha256:")[2]
        artefact = Artefact(oci.ref, digest, oci.dest, frozenset(oci.allow))
        return TreeSource(version, artefact, ports.trees)
    if source.script is not None:
        return ScriptSource(version, source.script, ports.runner, name)
    raise Contraindicated(f"source.type {source.type}: this agent does not know it; update it")
