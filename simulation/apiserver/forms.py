"""The forms of a response: whole objects, their metadata alone, or a table."""

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from simulation.apiserver.errors import ApiError, Obj

META = "meta.k8s.io/v1"
PARTIAL = ("as=PartialObjectMetadata", "as=PartialObjectMetadataList")


class Form(Enum):
    """The requested form; the table forms differ in what each row contains."""

    PLAIN = ""
    PARTIAL = "PartialObjectMetadata"
    METADATA = "Metadata"
    OBJECT = "Object"
    NONE = "None"


class Rendering(Protocol):
    """Renders objects in a form other than the stored one."""

    def render_object(self, obj: Obj) -> Obj: ...

    def many(self, objs: Sequence[Obj], metadata: Obj) -> Obj: ...

    def mark(self, metadata: Obj) -> Obj:
        """Return the object of a bookmark."""
        ...


class Partial:
    """Renders objects by their metadata alone."""

    def render_object(self, obj: Obj) -> Obj:
        return partial(obj["metadata"])

    def many(self, objs: Sequence[Obj], metadata: Obj) -> Obj:
        head = {"kind": "PartialObjectMetadataList", "apiVersion": META, "metadata": metadata}
        return {**head, "items": [self.render_object(obj) for obj in objs]}

    def mark(self, metadata: Obj) -> Obj:
        return partial(metadata)


def partial(metadata: Obj) -> Obj:
    return {"kind": "PartialObjectMetadata", "apiVersion": META, "metadata": metadata}


def choose_form(accept: str, include: str) -> Form:
    """Return the first supported form of an Accept header. Raises ApiError 406.

    include: the parameter `includeObject`.
    """
    if not accept or accept in ("application/json", "*/*"):
        return Form.PLAIN
    for wanted in accept.split(","):
        media, *parameters = (part.strip() for part in wanted.split(";"))
        if media not in ("application/json", "application/*", "*/*"):
            continue
        if "as=Table" in parameters and "v=v1" in parameters:
            return Form(include or "Metadata")
        if any(form in parameters for form in PARTIAL) and "v=v1" in parameters:
            return Form.PARTIAL
        if not any(parameter.startswith("as=") for parameter in parameters):
            return Form.PLAIN
    raise ApiError(
        406,
        "NotAcceptable",
        "the embedded API server answers in JSON, plain or as Table or PartialObjectMetadata of "
        f"meta.k8s.io/v1: ask with Accept: application/json (asked was {accept!r})",
    )
