"""Request bodies: JSON, or YAML if the client says so."""

from typing import Any

import msgspec

from simulation.apiserver import kinds
from simulation.apiserver.calls import APPLY, Call
from simulation.apiserver.errors import bad_request, unsupported

JSON = ("", "application/json", "application/octet-stream")
YAML = ("application/yaml", APPLY)
DEEPEST = 100
"""Depth of nested lists and maps in YAML, whose reader recurses."""


def decode(call: Call, *, typed: bool = True) -> Any:
    """Decode the body. Raises ApiError 400.

    typed: drop explicit nulls of built-in kinds, which mean absent fields.
    """
    if not call.body:
        raise bad_request("the request has no body")
    try:
        data = msgspec.json.decode(call.body)
    except msgspec.DecodeError as error:
        if call.content_type not in YAML:
            raise bad_request(f"the body is not JSON: {error}") from error
        return _yaml(call, typed)
    return _without_nulls(call, data) if typed and b"null" in call.body else data


def check_media(call: Call) -> None:
    """Raise ApiError 415 for a body that is neither JSON nor YAML."""
    if call.content_type not in (*JSON, YAML[0]):
        raise unsupported(
            415,
            f"bodies of type {call.content_type!r}",
            "send application/json (kubectl create sends protobuf: use kubectl apply -f)",
        )


def _without_nulls(call: Call, data: Any) -> Any:
    return data if call.resource.crd else kinds.without_nulls(data)


def _yaml(call: Call, typed: bool) -> Any:
    from simulation.apiserver import yaml_text  # on demand: few clients send YAML

    try:
        data = yaml_text.load(call.body.decode(), DEEPEST)
    except ValueError as error:
        raise bad_request(f"error decoding YAML: {error}") from error
    return _without_nulls(call, data) if typed else data
