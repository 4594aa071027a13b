"""Turns CustomResourceDefinitions into served resources.

Each CRD has one served version: there is no conversion, and a CRD that needs it is refused.
"""

from simulation.apiserver.errors import Cause, Obj, invalid
from simulation.apiserver.objects import CRDS
from simulation.apiserver.registry import Column, Registry, ScalePaths, ServedResource
from simulation.apiserver.schema import Schema
from simulation.apiserver.store import Store


class CustomResources:
    """Keeps the registry in step with the CRDs."""

    def __init__(self, registry: Registry, store: Store) -> None:
        self._registry = registry
        self._store = store

    def install(self, crd: Obj, now: str) -> Obj:
        """Serve what `crd` defines. Return it with the status of an established CRD.

        now: an RFC 3339 timestamp.

        Raises ApiError 422.
        """
        spec = self._checked(crd)
        names = spec["names"]
        version = next(v for v in spec["versions"] if v.get("served"))
        if self._registry.find(crd["metadata"]["name"]) is None:
            self._store.drop(crd["metadata"]["name"])
        self._registry.add(self._resource(crd["metadata"]["name"], spec, version))
        before = {
            condition["type"]: condition
            for condition in (crd.get("status") or {}).get("conditions") or ()
        }
        conditions = [
            before.get(type_)
            or {
                "type": type_,
                "status": "True",
                "reason": reason,
                "message": message,
                "lastTransitionTime": now,
            }
            for type_, reason, message in (
                ("NamesAccepted", "NoConflicts", "no conflicts found"),
                ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
            )
        ]
        accepted = {
            "listKind": f"{names['kind']}List",
            "singular": names["kind"].lower(),
            **names,
        }
        stored = [v["name"] for v in spec["versions"] if v.get("storage")]
        status = {"acceptedNames": accepted, "conditions": conditions, "storedVersions": stored}
        return {**crd, "status": status}

    def uninstall(self, crd: Obj) -> None:
        """Stop serving what `crd` defined."""
        resource = self._registry.find(crd["metadata"]["name"])
        if resource is not None:
            self._registry.remove(resource)
            self._store.drop(resource.qualified)

    def _checked(self, crd: Obj) -> Obj:
        spec: Obj = crd.get("spec") or {}
        names = spec.get("names") or {}
        name = crd["metadata"]["name"]
        causes = [
            Cause(f"spec.{field}", "Required value", "FieldValueRequired")
            for field, value in (
                ("group", spec.get("group")),
                ("names.plural", names.get("plural")),
                ("names.kind", names.get("kind")),
                ("scope", spec.get("scope")),
            )
            if not value
        ]
        if not causes and name != f"{names['plural']}.{spec['group']}":
            causes.append(
                Cause(
                    "metadata.name",
                    f'Invalid value: "{name}": must be spec.names.plural+"."+spec.group',
                )
            )
        versions = [v for v in spec.get("versions") or () if v.get("served")]
        if len(versions) != 1:
            causes.append(
                Cause(
                    "spec.versions",
                    "Invalid value: the embedded API server serves exactly one version of a CRD "
                    f"(here {len(versions)}): there is no conversion, use a real cluster",
                )
            )
        elif not (versions[0].get("schema") or {}).get("openAPIV3Schema"):
            causes.append(
                Cause(
                    "spec.versions[0].schema.openAPIV3Schema",
                    "Required value: schemas are required",
                    "FieldValueRequired",
                )
            )
        if causes:
            raise invalid(self._registry.named(CRDS), name, causes)
        return spec

    def _resource(self, name: str, spec: Obj, version: Obj) -> ServedResource:
        names = spec["names"]
        paths = [f["jsonPath"].lstrip(".") for f in version.get("selectableFields") or ()]
        return ServedResource(
            group=spec["group"],
            version=version["name"],
            plural=names["plural"],
            kind=names["kind"],
            namespaced=spec["scope"] == "Namespaced",
            short=tuple(names.get("shortNames") or ()),
            status="status" in (version.get("subresources") or {}),
            scale=_scale((version.get("subresources") or {}).get("scale")),
            generation=True,
            blind_put=False,
            fields={path: tuple(path.split(".")) for path in paths},
            categories=tuple(names.get("categories") or ()),
            schema=Schema(version["schema"]["openAPIV3Schema"]),
            columns=tuple(
                Column(
                    column["name"],
                    column["jsonPath"],
                    column.get("type", "string"),
                    column.get("priority", 0),
                    column.get("description", ""),
                )
                for column in version.get("additionalPrinterColumns") or ()
            ),
            crd=name,
            singular=names.get("singular", ""),
            list_kind=names.get("listKind", ""),
        )


def _scale(given: Obj | None) -> ScalePaths | None:
    if not given:
        return None
    paths = (
        tuple(given.get(key, "").lstrip(".").split(".")) if given.get(key) else ()
        for key in ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
    )
    return ScalePaths(*paths)
