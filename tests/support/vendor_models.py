"""Published API models of cloud vendors, as checks of what is sent to a fake and what it answers.

    server = CloudServer(answer, check=AwsModel("ec2").check)

Each check returns a list of violations: unknown members, missing required ones, values of another
type, and in requests to AWS values outside of an enumeration. An answer may have newer values.
Answers with an error have no model and pass.

aws      botocore's service models: the query protocols `ec2` and `query`
azure    the models of azure-mgmt-compute, which Microsoft generates from its API specifications
alibaba  the models of alibabacloud-ecs20140526 and -ess20220222, which Alibaba generates from its
         API metadata
"""

import inspect
import json
import re
import typing
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from types import ModuleType
from typing import Any

import azure.mgmt.compute.models
from alibabacloud_ecs20140526 import models as ecs_models
from alibabacloud_ess20220222 import models as ess_models
from botocore.loaders import Loader, create_loader
from botocore.model import (
    ListShape,
    OperationModel,
    ServiceModel,
    Shape,
    StringShape,
    StructureShape,
)
from support.cloud_server import Answer, Request

LOADER: Loader = create_loader()
ALIBABA: tuple[ModuleType, ...] = (ecs_models, ess_models)
COMMON = ("Action", "Version")


# -- aws ------------------------------------------------------------------------------------------


class AwsModel:
    """A service of AWS with a query protocol."""

    def __init__(self, service: str) -> None:
        self.model = ServiceModel(LOADER.load_service_model(service, "service-2"), service)
        self.is_ec2 = self.model.metadata["protocol"] == "ec2"

    def has(self, request: Request) -> bool:
        """Return whether the request is an operation of this service."""
        return request.form["Action"] in self.model.operation_names

    def check(self, request: Request, answer: Answer) -> list[str]:
        operation = self.model.operation_model(request.form["Action"])
        problems = [f"request {operation.name}: {p}" for p in self._request(operation, request)]
        if answer.status < 400:
            problems += [f"answer {operation.name}: {p}" for p in self._answer(operation, answer)]
        return problems

    def _request(self, operation: OperationModel, request: Request) -> Iterator[str]:
        form = {key: value for key, value in request.form.items() if key not in COMMON}
        if operation.input_shape is not None:
            yield from self._form(operation.input_shape, "", form)
        elif form:
            yield f"takes no parameters, got {sorted(form)}"

    def _form(self, shape: Shape, path: str, form: Mapping[str, str]) -> Iterator[str]:
        """Check the parameters whose names continue `path`; `form` has no others."""
        if isinstance(shape, StructureShape):
            yield from self._form_structure(shape, path, form)
        elif isinstance(shape, ListShape):
            groups = _by_first_part(self._without_member(shape, form))
            for number, inner in groups.items():
                if not number.isdigit():
                    yield f"{path}: {number!r} is no number of a list"
                yield from self._form(shape.member, f"{path}.{number}", inner)
        elif set(form) != {""}:
            yield f"{path}: a {shape.type_name} has no members {sorted(form)}"
        else:
            yield from _check_scalar(shape, path, form[""])
            if isinstance(shape, StringShape) and shape.enum and form[""] not in shape.enum:
                yield f"{path}: {form['']!r} is none of {shape.enum[:8]}"

    def _form_structure(
        self, shape: StructureShape, path: str, form: Mapping[str, str]
    ) -> Iterator[str]:
        names = {self._form_name(name, member): member for name, member in shape.members.items()}
        groups = _by_first_part(form)
        for name in groups.keys() - names.keys():
            yield f"{path}.{name} is unknown"
        for name in groups.keys() & names.keys():
            yield from self._form(names[name], f"{path}.{name}", groups[name])
        for required in shape.required_members:
            if self._form_name(required, shape.members[required]) not in groups:
                yield f"{path}.{required} is required"

    def _form_name(self, name: str, member: Shape) -> str:
        """Return the name of a member in a request, as botocore's serializers write it."""
        if not self.is_ec2:
            return str(member.serialization.get("name", name))
        if "queryName" in member.serialization:
            return str(member.serialization["queryName"])
        given = str(member.serialization.get("name", name))
        return given[0].upper() + given[1:]

    def _without_member(self, shape: ListShape, form: Mapping[str, str]) -> Mapping[str, str]:
        if self.is_ec2 or shape.serialization.get("flattened"):
            return form
        return {key.removeprefix("member."): value for key, value in form.items()}

    def _answer(self, operation: OperationModel, answer: Answer) -> Iterator[str]:
        root = ElementTree.fromstring(answer.raw)
        if _local(root) != f"{operation.name}Response":
            yield f"root is {_local(root)}"
        wrapper = root.find("{*}" + f"{operation.name}Result")
        content = root if wrapper is None else wrapper
        shape = operation.output_shape
        if isinstance(shape, StructureShape):
            yield from self._element(shape, operation.name, content)

    def _element(self, shape: Shape, path: str, element: ElementTree.Element) -> Iterator[str]:
        if isinstance(shape, ListShape):
            entry = shape.member.serialization.get("name", "member")
            for child in element:
                if _local(child) != entry:
                    yield f"{path}: entry {_local(child)}, expected {entry}"
                yield from self._element(shape.member, f"{path}.{entry}", child)
        elif isinstance(shape, StructureShape):
            names = {str(m.serialization.get("name", n)): m for n, m in shape.members.items()}
            for child in element:
                name = _local(child)
                if name in names:
                    yield from self._element(names[name], f"{path}.{name}", child)
                elif name not in ("requestId", "ResponseMetadata"):
                    yield f"{path}.{name} is unknown"
        elif len(element):
            yield f"{path}: a {shape.type_name} has no members"
        else:
            yield from _check_scalar(shape, path, element.text or "")


def _by_first_part(form: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the parameters by the first part of their names, with the rest of the names."""
    groups: dict[str, dict[str, str]] = {}
    for key, value in form.items():
        first, _, rest = key.partition(".")
        groups.setdefault(first, {})[rest] = value
    return groups


def _check_scalar(shape: Shape, path: str, text: str) -> Iterator[str]:
    if shape.type_name in ("integer", "long") and not re.fullmatch(r"-?[0-9]+", text):
        yield f"{path}: {text!r} is no {shape.type_name}"
    if shape.type_name == "boolean" and text not in ("true", "false"):
        yield f"{path}: {text!r} is no boolean"


def _local(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


# -- models that a vendor generates as Python classes ----------------------------------------------


class ModelMember(typing.NamedTuple):
    """Member of a generated model.

    model: class of its content, None for a scalar or anything.
    """

    model: type[Any] | None
    is_list: bool
    is_map: bool


Members = typing.Callable[[type[Any]], Mapping[str, ModelMember]]


def check_value(members: Members, model: type[Any], path: str, value: Any) -> Iterator[str]:
    """Check a JSON value against a generated model."""
    if not isinstance(value, Mapping):
        yield f"{path}: {value!r} is no {model.__name__}"
        return
    known = members(model)
    for name, inner in value.items():
        if name not in known:
            yield f"{path}.{name} is unknown"
        elif inner is not None:
            yield from _check_member(members, known[name], f"{path}.{name}", inner)


def _check_member(members: Members, member: ModelMember, path: str, value: Any) -> Iterator[str]:
    if member.is_list != isinstance(value, list):
        yield f"{path}: {value!r} is {'no' if member.is_list else 'a'} list"
        return
    if member.is_map and not isinstance(value, Mapping):
        yield f"{path}: {value!r} is no map"
        return
    entries = value if member.is_list else value.values() if member.is_map else [value]
    for entry in entries:
        if member.model is not None:
            yield from check_value(members, member.model, path, entry)
        elif isinstance(entry, Mapping | list):
            yield f"{path}: {entry!r} is no scalar"


# -- azure ----------------------------------------------------------------------------------------


class AzureMachineModel:
    """Virtual machines of Microsoft.Compute."""

    models = azure.mgmt.compute.models

    def check(self, request: Request, answer: Answer) -> list[str]:
        of_set = "virtualmachinescalesets" in request.path.lower()
        machine = self.models.VirtualMachineScaleSetVM if of_set else self.models.VirtualMachine
        problems: list[str] = []
        if request.method == "PUT":
            problems += check_value(azure_members, machine, "request", request.json)
            if "location" not in request.json:
                problems.append("request.location is required")
        if answer.status < 400 and isinstance(answer.body, Mapping):
            is_list = "value" in answer.body
            for body in answer.body["value"] if is_list else [answer.body]:
                problems += check_value(azure_members, machine, "answer", body)
        return problems


def azure_members(model: type[Any]) -> Mapping[str, ModelMember]:
    """Return the members of a model of azure-mgmt-compute, by their names in JSON."""
    return _read_azure_model(model.__name__)


@cache
def _read_azure_model(name: str) -> Mapping[str, ModelMember]:
    model = getattr(azure.mgmt.compute.models, name)
    members: dict[str, ModelMember] = {}
    for base in model.__mro__:
        for attribute, annotation in vars(base).get("__annotations__", {}).items():
            rest = vars(base).get(attribute)
            if rest is not None and hasattr(rest, "_rest_name_input"):
                members[rest._rest_name_input or attribute] = _azure_member(str(annotation))
    return members


def _azure_member(annotation: str) -> ModelMember:
    found = re.search(r"_models\.(\w+)|\bmodels\.(?:_\w+\.)?(\w+)", annotation)
    kind = None if found is None else getattr(azure.mgmt.compute.models, found[1] or found[2])
    if kind is not None and issubclass(kind, Enum):
        kind = None  # extensible: Microsoft adds values, such as sizes of machines
    return ModelMember(kind, "list[" in annotation.lower(), "dict[" in annotation.lower())


# -- alibaba --------------------------------------------------------------------------------------


class AlibabaModel:
    """Operations of ECS and Auto Scaling."""

    def check(self, request: Request, answer: Answer) -> list[str]:
        action = request.headers["x-acs-action"]
        models = next(each for each in ALIBABA if hasattr(each, f"{action}Request"))
        asked, given = getattr(models, f"{action}Request"), getattr(models, f"{action}ResponseBody")
        problems = [f"request {action}{p}" for p in _check_form(asked, "", dict(request.form))]
        if answer.status < 400:
            body = json.loads(answer.raw)
            problems += check_value(alibaba_members, given, f"answer {action}", body)
        return problems


def alibaba_members(model: type[Any]) -> Mapping[str, ModelMember]:
    """Return the members of a model of Alibaba, by their names in JSON."""
    return _read_alibaba_model(model.__module__.partition(".")[0], model.__name__)


WRITTEN = re.compile(
    r"if self\.(\w+) is not None:\s+(?:for \w+ in self\.\w+:\s+)?result\['([^']+)'\]"
)
"""How a model of Alibaba writes a member."""


@cache
def _read_alibaba_model(package: str, name: str) -> Mapping[str, ModelMember]:
    models = next(each for each in ALIBABA if each.__name__.startswith(package))
    model = getattr(models, name)
    written = WRITTEN.findall(inspect.getsource(model.to_map))
    hints = {
        name: str(parameter.annotation)
        for name, parameter in inspect.signature(model.__init__).parameters.items()
    }
    return {name: _alibaba_member(models, hints[attribute]) for attribute, name in written}


def _alibaba_member(models: ModuleType, annotation: str) -> ModelMember:
    found = re.search(r"main_models\.(\w+)|\.models\.(?:_\w+\.)?(\w+)", annotation)
    kind = None if found is None else getattr(models, found[1] or found[2])
    return ModelMember(kind, "List[" in annotation, "Dict[" in annotation)


def _check_form(model: type[Any], path: str, form: Mapping[str, str]) -> Iterator[str]:
    """Check the parameters of a request, whose names join members and numbers by dots."""
    known = alibaba_members(model)
    for name, inner in _by_first_part(form).items():
        member = known.get(name)
        if member is None:
            yield f"{path}.{name} is unknown"
            continue
        entries = _by_first_part(inner).values() if member.is_list and "" not in inner else [inner]
        for entry in entries:
            if member.model is not None:
                yield from _check_form(member.model, f"{path}.{name}", entry)
            elif set(entry) != {""}:
                yield f"{path}.{name} has no members {sorted(entry)}"
