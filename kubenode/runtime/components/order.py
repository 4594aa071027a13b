"""In which order the components of one machine change: what others stand on first."""

from collections.abc import Collection, Mapping

from kubenode.runtime.components.versions import satisfies
from kubenode.runtime.components.wire import ComponentSpec, WireMachineHost


class DependencyCycle(Exception):
    """Components that wait for one another; the text names them in their order."""

    def __init__(self, names: Collection[str]) -> None:
        super().__init__(" -> ".join(names))
        self.names = tuple(names)


def ordered(depends: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """The names, each after those it depends on; by name where nothing else decides.

    What it depends on and is not here has no place: see `unmet`. Removal goes the other way round.
    Raises DependencyCycle.
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
    """Which dependency does not hold, in a sentence; "" when all do. Raises ValueError.

    versions  of the components that are well on this machine, by family
    """
    for need in spec.depends_on:
        have = versions.get(need.component, "")
        if not have:
            return f"waits for {need.component}"
        if not satisfies(have, need.version):
            return f"needs {need.component} {need.version}, this machine has {have}"
    return ""


def unfit(spec: ComponentSpec, host: WireMachineHost | None, api_server: str = "") -> str:
    """Why it cannot run on this host, in a sentence; "" when it can. Raises ValueError.

    What is required and not known is no: nothing is put on an unknown host. `api_server` "" leaves
    that requirement to the operator, who knows it.
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
