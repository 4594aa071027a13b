"""What every model of the API shares: camelCase, strict for people, lenient for servers.

A person's YAML with an unknown field is a mistake and is refused. An object that comes from the
API server was validated when it was written, perhaps by a newer version of this program: its
unknown fields are passed over, or one upgrade would make every older process blind.
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
    """An error to raise from a validator: `message` says what is wrong and what to do.

    `at` is where below the validated model, as a person writes it (`selector`); "" is the model.
    """
    return PydanticCustomError("rule", "{message}", {"message": message, "at": at})


@dataclass(frozen=True, slots=True)
class CelRule:
    """A rule that the API server checks in CEL and the model's own validator in Python.

    Both answer with the same `message`, at the same place.
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
    """0 shows always, 1 with `-o wide` only."""


@dataclass(frozen=True, slots=True)
class ScaleInfo:
    """JSON paths of the scale subresource, which autoscalers and `kubectl scale` speak to."""

    spec_replicas: str
    status_replicas: str
    label_selector: str


@dataclass(frozen=True, slots=True)
class ResourceInfo:
    """What a CRD says of a kind beside its schema."""

    kind: str
    plural: str
    short_name: str
    columns: tuple[PrinterColumn, ...] = ()
    selectable_fields: tuple[str, ...] = ()
    scale: ScaleInfo | None = None
    namespaced: bool = False


class Model(BaseModel):
    """A part of an API object."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        extra="forbid",
        use_attribute_docstrings=True,
        allow_inf_nan=False,
    )

    cel: ClassVar[tuple[CelRule, ...]] = ()
    mutable: ClassVar[tuple[str, ...] | None] = None
    """Of an immutable spec: the fields that may change all the same. None: all may."""
    defaulted_in_python: ClassVar[tuple[str, ...]] = ()
    """Fields that the model fills in by a rule of its own: not required, no default in the CRD."""

    def to_dict(self) -> dict[str, Any]:
        """The object as JSON types, camelCase, without absent fields."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class Resource(Model):
    """A kind of the group kubenode.io; the subclasses fix `apiVersion` and `kind`."""

    resource: ClassVar[ResourceInfo]

    @classmethod
    def from_server(cls, raw: bytes) -> Self:
        """Read an object of the API server. Raises pydantic.ValidationError if it does not fit."""
        return cls.model_validate_json(raw, extra="ignore")

    @classmethod
    def from_user(cls, data: Mapping[str, Any]) -> Self:
        """Read what a person wrote; unknown fields are errors. Raises pydantic.ValidationError."""
        return cls.model_validate(data)
