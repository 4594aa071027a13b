"""Objects that a step `createObject` may create: the part `objects` of the receivers file.

A rule names a template, and this file defines it. So authors of rules cannot create anything that
the operator has not allowed, and RBAC must allow it too.
"""

from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    JsonValue,
    StrictBool,
    StringConstraints,
    field_validator,
    model_validator,
)

from kubenode.api.base import Model, refusal

Word = Annotated[str, StringConstraints(min_length=1, max_length=128)]
LABEL = Annotated[str, StringConstraints(max_length=1024)]
ApiVersion = Annotated[
    str, StringConstraints(min_length=1, max_length=253, pattern=r"^([a-z0-9.-]+/)?v[a-z0-9]+$")
]
Plural = Annotated[
    str, StringConstraints(min_length=1, max_length=128, pattern=r"^[a-z][a-z0-9]*$")
]
Namespace = Annotated[
    str, StringConstraints(max_length=63, pattern=r"^([a-z0-9]([a-z0-9-]*[a-z0-9])?)?$")
]
OURS = "kubenode.io/"


class ConditionIs(Model):
    """A condition in the object's status.conditions."""

    type: Word
    status: Literal["True", "False", "Unknown"] = "True"
    reason: str | None = Field(default=None, min_length=1, max_length=128)


class Says(Model):
    """What the object says of itself: a condition, or the word in status.phase."""

    condition: ConditionIs | None = None
    phase: Word | None = None

    @model_validator(mode="after")
    def _check_sign(self) -> "Says":
        if (self.condition is None) == (self.phase is None):
            raise refusal("not one sign: write either condition or phase")
        return self


class Owner(Model):
    """An object that this one belongs to, as Cluster API's remediation belongs to its Machine."""

    api_version: ApiVersion
    kind: Word
    plural: Plural
    namespace: Namespace = ""
    name: str = Field(min_length=1, max_length=1024)
    """A template, such as {{ annotations['cluster.x-k8s.io/machine'] }}."""


class ObjectTemplate(Model):
    """One kind of object, and what stands in it. Texts are templates of Jinja2."""

    api_version: ApiVersion
    kind: Word
    plural: Plural
    """As in the path of the API: `kubectl api-resources` shows it."""
    namespace: Namespace = ""
    """Empty: the kind has no namespace."""
    name: str = Field(default="{{ job }}-{{ rung }}-{{ step }}", min_length=1, max_length=1024)
    """The same for the same step of the same job, so that it is made once."""
    labels: dict[Word, LABEL] = Field(default_factory=dict, max_length=32)
    annotations: dict[Word, LABEL] = Field(default_factory=dict, max_length=32)
    spec: dict[str, JsonValue] = Field(default_factory=dict, max_length=64)
    owner: Owner | None = None
    done_when: Says | None = None
    """Absent: only when the object is gone, which always counts."""
    failed_when: Says | None = None
    keep: StrictBool = False
    """Leave the object when the job ends. Default: it is deleted then, and when the step fails."""

    @field_validator("labels", "annotations")
    @classmethod
    def _not_ours(cls, marks: dict[str, str]) -> dict[str, str]:
        for key in marks:
            if key.startswith(OURS):
                raise refusal(f"{OURS} is for KubeNode's own marks: choose another name", key)
        return marks

    @field_validator("spec")
    @classmethod
    def _shallow(cls, spec: dict[str, Any]) -> dict[str, Any]:
        if _depth(spec) > DEEPEST:
            raise refusal(f"nests more than {DEEPEST} deep: rewrite it flatter")
        return spec


DEEPEST = 16


def _depth(value: Any) -> int:
    match value:
        case dict():
            return 1 + max(map(_depth, value.values()), default=0)
        case list():
            return 1 + max(map(_depth, value), default=0)
        case _:
            return 0
