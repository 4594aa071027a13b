"""CustomResourceDefinitions of all kinds, generated from the models.

Unrolled Expressions repeat the same text (see kubenode.api.structural). Equal copies are written as
one YAML anchor with aliases, which keeps the files short. kubectl, Helm and other readers resolve
them.
"""

import io
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import RoundTripRepresenter

from kubenode.api.base import GROUP, VERSION, Resource, ResourceInfo
from kubenode.api.structural import structural_schema
from kubenode.api.v1alpha1 import KINDS

HEADER = "# Written by `make docs` from kubenode/api; change the models, not this file.\n"


def definition(kind: type[Resource]) -> dict[str, Any]:
    """Return the CustomResourceDefinition of `kind`, apiextensions.k8s.io/v1."""
    info = kind.resource
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{info.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced" if info.namespaced else "Cluster",
            "names": {
                "kind": info.kind,
                "listKind": f"{info.kind}List",
                "plural": info.plural,
                "singular": info.kind.lower(),
                "shortNames": [info.short_name],
                "categories": ["kubenode"],
            },
            "versions": [_version(kind, info)],
        },
    }


def _version(kind: type[Resource], info: ResourceInfo) -> dict[str, Any]:
    subresources: dict[str, Any] = {"status": {}} if "status" in kind.model_fields else {}
    if info.scale is not None:
        subresources["scale"] = {
            "specReplicasPath": info.scale.spec_replicas,
            "statusReplicasPath": info.scale.status_replicas,
            "labelSelectorPath": info.scale.label_selector,
        }
    made: dict[str, Any] = {
        "name": VERSION,
        "served": True,
        "storage": True,
        **({"subresources": subresources} if subresources else {}),
        "additionalPrinterColumns": [
            {"name": column.name, "type": column.type, "jsonPath": column.json_path}
            | ({"priority": column.priority} if column.priority else {})
            for column in info.columns
        ],
    }
    if info.selectable_fields:
        made["selectableFields"] = [{"jsonPath": path} for path in info.selectable_fields]
    return made | {"schema": {"openAPIV3Schema": structural_schema(kind)}}


class _Representer(RoundTripRepresenter):
    """Quotes texts that YAML 1.1, which kubectl reads, parses as booleans: `Off`, `on`, `no`."""

    def represent_str(self, data: str) -> ScalarNode:
        if data.lower() in ("y", "yes", "n", "no", "on", "off"):
            return self.represent_scalar("tag:yaml.org,2002:str", data, style='"')
        return super().represent_str(data)  # type: ignore[no-any-return]


_Representer.add_representer(str, _Representer.represent_str)


def as_yaml(crd: dict[str, Any]) -> str:
    """Return `crd` as YAML. A dict that occurs twice is written once."""
    yaml = YAML()
    yaml.Representer = _Representer
    yaml.width = 100
    yaml.indent(mapping=2, sequence=4, offset=2)
    text = io.StringIO()
    yaml.dump(crd, text)
    return HEADER + text.getvalue()


def files() -> dict[str, str]:
    """Return the content of each file by its name, one file per kind."""
    return {f"{GROUP}_{kind.resource.plural}.yaml": as_yaml(definition(kind)) for kind in KINDS}
