"""Base of all API models: camelCase, strict for user input, lenient for stored objects.

An unknown field in a manifest of a user is an error. An object from the API server was validated
when it was written, perhaps by a newer version of this program. Its unknown fields are ignored, so
that an upgrade does not block older processes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

GROUP = "kubenode.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"


def refusal(message: str, at: str = "") -> PydanticCustomError:
    """Return an error for a validator to raise. `message` describes the problem and the remedy.

    at: JSON path of the field below the validated model, such as `selector`; "" for the model
    itself.
    """
    return PydanticCustomError("rule", "{message}", {"message": message, "at": at})


@dataclass(frozen=True, slots=True)
class CelRule:
    """Rule that the API server evaluates in CEL and the validator of the model in Python.

    Both report the same `message` at the same field.
    """

    rule: str
    message: str
    at: str = ""
    """Field below the model that the message is about; "" is the model itself."""

    def broken(self) -> PydanticCustomError:
        return refusal(self.message, self.at)


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    name: str
    json_path: str
    type: str = "string"
    priority: int = 0
    """0: always shown. 1: shown only with `-o wide`."""


@dataclass(frozen=True, slots=True)
class ScaleInfo:
    """JSON paths of the scale subresource, for autoscalers and `kubectl scale`."""

    spec_replicas: str
    status_replicas: str
    label_selector: str


@dataclass(frozen=True, slots=True)
class ResourceInfo:
    """Properties of a kind in its CRD, other than the schema."""

    kind: str
    plural: str
    short_name: str
    columns: tuple[PrinterColumn, ...] = ()
    selectable_fields: tuple[str, ...] = ()
    scale: ScaleInfo | None = None
    namespaced: bool = False


class Model(BaseModel):
    """Part of an API object."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        extra="forbid",
        use_attribute_docstrings=True,
        defer_build=True,  # at first use: a program reads few of the kinds that it imports
        allow_inf_nan=False,
    )

    cel: ClassVar[tuple[CelRule, ...]] = ()
    mutable: ClassVar[tuple[str, ...] | None] = None
    """Mutable fields of an immutable spec. None if all fields are mutable."""
    defaulted_in_python: ClassVar[tuple[str, ...]] = ()
    """Fields with a default that the model computes. Not required, without default in the CRD."""

    def to_dict(self) -> dict[str, Any]:
        """Return the object as JSON types in camelCase, without absent fields."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class Resource(Model):
    """Kind of the group kubenode.io. Subclasses set `apiVersion` and `kind`."""

    resource: ClassVar[ResourceInfo]

    @classmethod
    def from_server(cls, raw: bytes) -> Self:
        """Parse an object of the API server. Raises pydantic.ValidationError if it is invalid."""
        return cls.model_validate_json(raw, extra="ignore")

    @classmethod
    def from_user(cls, data: Mapping[str, Any]) -> Self:
        """Parse user input. Unknown fields are errors. Raises pydantic.ValidationError."""
        return cls.model_validate(data)
