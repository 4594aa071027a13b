"""docs/reference/component-library.md: the components that KubeNode ships.

python -m devtools.component_library            write it
python -m devtools.component_library --check    exit 1 when it differs
"""

import sys

from devtools.generators import ROOT, run
from kubenode.api.v1alpha1.componentsource import ComponentSource, HealthCheck
from kubenode.api.v1alpha1.machinecomponent import MachineComponentSpec
from kubenode.cli.component_library import LibraryComponent, component_library

PAGE = ROOT / "docs/reference/component-library.md"
SOURCES = "../../machine/library"
HEAD = """<!-- Written by `make docs` from machine/library. -->
# Component library

Components of a node that KubeNode ships. `kubenode component library list` prints them, and
`kubenode component library show NAME` prints the objects of one.

```
kubenode component library install runc --selector pool=online
kubenode component library install kubelet --version 1.36.3 --sha256 DIGEST --selector pool=online
```

- `install` stores the MachineComponent, and with `--selector` the MachineComponentSet that rolls
  it out to the machines with these labels. Without a selector nothing changes on any host. An
  object that exists with other content stays as it is.
- KubeNode knows no digests of archives. Take the SHA-256 of an archive from a source that you
  trust, and pass `--sha256`. A mirror is named by `--url`.
- Package versions are those of Debian 12. Pass `--package NAME=VERSION` for another release, and
  `--set-value NAME=VALUE` for the values of your site. Change anything else in the output of
  `show`.
- To upgrade, install the new version without a selector, look at `kubenode component plan SET
  --component NAME`, and set `spec.component` of the set ([Component
  rollouts](../component-sets.md)).
- A kubelet or kube-proxy must not be newer than the API server, and at most three minor versions
  older. `install` refuses another version, and a set reports VersionSkew.

An update of a component disturbs its node by the given class ([Components](../components.md)). A
class in brackets applies to a new minor version, if it differs.
"""


def page() -> str:
    return "\n".join([HEAD, *(_section(entry) for entry in component_library().values())])


def _section(entry: LibraryComponent) -> str:
    spec, values = entry.component.spec, entry.component_set.spec.values
    rows = {
        "Version": spec.version,
        "Source": _source(spec.source),
        "Depends on": ", ".join(f"{d.component} {d.version}".strip() for d in spec.depends_on),
        "Files": ", ".join(f"`{file.path}`" for file in spec.files),
        "Units": ", ".join(f"`{unit.name}`" for unit in spec.units),
        "Values": ", ".join(f"`{name}: {value}`" for name, value in values.items()),
        "Update": _update(spec),
        "Checks": ", ".join(_check(check) for check in spec.health),
    }
    lines = [f"| {name} | {text} |" for name, text in rows.items() if text]
    link = f"[{entry.name}.yaml]({SOURCES}/{entry.name}.yaml)"
    head = [f"## {entry.name}", "", f"{entry.description} {link}", "", "| | |", "| --- | --- |"]
    return "\n".join([*head, *lines, ""])


def _source(source: ComponentSource) -> str:
    if source.tarball is not None:
        return f"`{source.tarball.url.rpartition('/')[2]}`, unpacked to `{source.tarball.dest}`"
    packages = source.apt.packages if source.apt is not None else []
    return ", ".join(f"`{package.name}={package.version}`" for package in packages)


def _update(spec: MachineComponentSpec) -> str:
    patch, minor = spec.disruption.patch.value, spec.disruption.minor.value
    return patch if patch == minor else f"{patch} ({minor})"


def _check(check: HealthCheck) -> str:
    program = " ".join(check.exec) if check.exec else ""
    return f"`{check.http or check.unit or program}`"


def main(arguments: list[str]) -> int:
    return run({PAGE: page()}, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
