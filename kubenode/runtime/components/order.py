"""The order in which the components of one machine change: dependencies first."""

from collections.abc import Collection, Mapping

from kubenode.runtime.components.versions import satisfies
from kubenode.runtime.components.wire import ComponentSpec, WireMachineHost


class DependencyCycle(Exception):
    """Components that depend on one another. The text names them in their order."""

    def __init__(self, names: Collection[str]) -> None:
        super().__init__(" -> ".join(names))
        self.names = tuple(names)


def ordered(depends: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """Return the names, each after those it depends on, otherwise by name. Reverse it for removal.

    Dependencies that are not keys of `depends` are left out: see `unmet`. Raises DependencyCycle.
    """
    order: dict[str, None] = {}
    for name in sorted(depends):
        _place(name, depends, order, ())
    return tuple(order)


def _place(
    name: str,
    depends: Mapping[str, Collection[str]],
    order: dict[str, None],
    above: tuple[str, ...],
) -> None:
    if name in order:
        return
    if name in above:
        raise DependencyCycle((*above[above.index(name) :], name))
    for below in sorted(depends[name]):
        if below in depends:
            _place(below, depends, order, (*above, name))
    order[name] = None


def depends_on(spec: ComponentSpec) -> tuple[str, ...]:
    return tuple(need.component for need in spec.depends_on)


def unmet(spec: ComponentSpec, versions: Mapping[str, str]) -> str:
    """Return which dependency is not met, as a sentence; "" if all are. Raises ValueError.

    versions: of the healthy components of this machine, by family
    """
    for need in spec.depends_on:
        have = versions.get(need.component, "")
        if not have:
            return f"waits for {need.component}"
        if not satisfies(have, need.version):
            return f"needs {need.component} {need.version}, this machine has {have}"
    return ""


def unfit(spec: ComponentSpec, host: WireMachineHost | None, api_server: str = "") -> str:
    """Return why the component cannot run on this host, as a sentence; "" if it can.

    A requirement on an unknown property is not met: nothing is installed on an unknown host. With
    `api_server` "" that requirement is left to the operator, who knows the version. Raises
    ValueError.
    """
    requires = spec.requires
    os, arch, kernel = (host.os, host.arch, host.kernel) if host else ("", "", "")
    if requires.os and os not in requires.os:
        return f"requires os {' or '.join(requires.os)}, this host is {os or 'unknown'}"
    if requires.arch and arch not in requires.arch:
        return f"requires arch {' or '.join(requires.arch)}, this host is {arch or 'unknown'}"
    if requires.kernel and not (kernel and satisfies(kernel, requires.kernel)):
        return f"requires kernel {requires.kernel}, this host has {kernel or 'an unknown one'}"
    if api_server and not satisfies(api_server, requires.api_server):
        return f"requires API server {requires.api_server}, this one is {api_server}"
    return ""
