"""Objects that a step `createObject` may make: the part `objects` of the file of receivers.

A rule names a template, this file says what it is. So whoever may write rules cannot create
anything that the operator has not allowed, and RBAC must allow it once more.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, StrictBool, StringConstraints, field_validator

from kubenode.api.base import Model, refusal

Word = Annotated[str, StringConstraints(min_length=1, max_length=128)]
LABEL = Annotated[str, StringConstraints(max_length=1024)]
OURS = "kubenode.io/"


class ConditionIs(Model):
    """A condition in the object's status.conditions."""

    type: Word
    status: Literal["True", "False", "Unknown"] = "True"
    reason: str | None = Field(default=None, min_length=1, max_length=128)


class DoneWhen(Model):
    """When the other remediator has done its work. An object that is gone always says so."""

    condition: ConditionIs | None = None
    """Absent: only when the object is gone."""


class ObjectTemplate(Model):
    """One kind of object, and what stands in it. Texts are templates of Jinja2."""

    api_version: str = Field(min_length=1, max_length=253, pattern=r"^([a-z0-9.-]+/)?v[a-z0-9]+$")
    kind: Word
    plural: str = Field(min_length=1, max_length=128, pattern=r"^[a-z][a-z0-9]*$")
    """As in the path of the API: `kubectl api-resources` shows it."""
    namespace: str = Field(default="", max_length=63, pattern=r"^([a-z0-9]([a-z0-9-]*[a-z0-9])?)?$")
    """Empty: the kind has no namespace."""
    name: str = Field(default="{{ job }}-{{ rung }}-{{ step }}", min_length=1, max_length=1024)
    """The same for the same step of the same job, so that it is made once."""
    labels: dict[Word, LABEL] = Field(default_factory=dict, max_length=32)
    annotations: dict[Word, LABEL] = Field(default_factory=dict, max_length=32)
    spec: dict[str, JsonValue] = Field(default_factory=dict, max_length=64)
    done_when: DoneWhen = Field(default_factory=DoneWhen)
    failed_when: ConditionIs | None = None
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
