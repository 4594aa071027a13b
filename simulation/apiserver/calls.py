"""A request as the API understands it: the verb, the resource and the options.

Features of a real server that this one lacks are refused here, with what to do instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simulation.apiserver.errors import (
    Cause,
    bad_request,
    invalid,
    no_such_path,
    unsupported,
)
from simulation.apiserver.field_tracker import Writer
from simulation.apiserver.objects import DeleteOptions, WriteOptions
from simulation.apiserver.registry import Registry, ServedResource

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
TRUE = ("true", "1", "True")
NOT_SERVED = {
    "attach": "pods have no processes here",
    "exec": "pods have no processes here",
    "log": "pods have no processes here",
    "portforward": "pods have no processes here",
    "proxy": "nothing runs behind it",
    "token": "there is no authentication; send no token",
    "approval": "nothing signs certificates here; use a real cluster",
    "finalize": "patch metadata.finalizers",
    "resize": "pods have no processes here",
    "ephemeralcontainers": "pods have no processes here",
}


@dataclass(slots=True)
class Call:
    """One request on a resource.

    verb: as in RBAC: get, list, watch, create, update, patch, delete or deletecollection.
    namespace, name, subresource: "" if absent.
    """

    verb: str
    resource: ServedResource
    namespace: str
    name: str
    subresource: str
    query: Mapping[str, str]
    accept: str = ""
    content_type: str = ""
    agent: str = ""
    body: bytes = b""

    def refuse(self) -> Exception:
        where = (
            f"{self.resource.qualified}/{self.subresource}"
            if self.subresource
            else (self.resource.qualified)
        )
        instead = NOT_SERVED.get(self.subresource, "see the verbs in its discovery")
        return unsupported(405, f"{self.verb} on {where}", instead)


def parse(registry: Registry, method: str, parts: list[str], query: Mapping[str, str]) -> Call:
    """Parse a path below /api or /apis. Raises ApiError 404 or 405."""
    core = parts[0] == "api"
    group, version, rest = ("", parts[1], parts[2:]) if core else (parts[1], parts[2], parts[3:])
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        resource = registry.get(group, version, rest[2])
        if resource is not None and resource.namespaced:
            namespace, rest = rest[1], rest[2:]
    resource = registry.get(group, version, rest[0])
    if resource is None or len(rest) > 3:
        raise no_such_path()
    name, subresource = (*rest[1:], "", "")[:2]
    verb = _verb(method, name, query)
    if resource.namespaced and not namespace and (name or verb not in ("list", "watch")):
        raise no_such_path()
    if subresource:
        _check_subresource(resource, subresource)
    return Call(verb, resource, namespace, name, subresource, query)


def _verb(method: str, name: str, query: Mapping[str, str]) -> str:
    match method:
        case "GET":
            if name:
                return "get"
            return "watch" if query.get("watch") in TRUE else "list"
        case "POST":
            return "create"
        case "PUT":
            return "update"
        case "PATCH":
            return "patch"
        case "DELETE":
            return "delete" if name else "deletecollection"
        case _:
            raise unsupported(405, f"method {method}", "use GET, POST, PUT, PATCH or DELETE")


def _check_subresource(resource: ServedResource, subresource: str) -> None:
    if subresource in resource.subresources or (subresource == "status" and resource.status):
        return
    if subresource == "scale" and resource.scale is not None:
        return
    if subresource in NOT_SERVED:
        what = f"{resource.plural}/{subresource}"
        raise unsupported(404, what, NOT_SERVED[subresource])
    raise no_such_path()


def write_options(call: Call) -> WriteOptions:
    """Parse the options of a write. Raises ApiError 422 for unknown values."""
    validation = call.query.get("fieldValidation") or "Warn"
    if "force" in call.query and call.content_type != APPLY:
        cause = Cause(
            "force", "Forbidden: may not be specified for non-apply patch", "FieldValueForbidden"
        )
        raise invalid(call.resource, call.name, [cause])
    if validation not in ("Ignore", "Warn", "Strict"):
        cause = Cause(
            "fieldValidation",
            f'Unsupported value: "{validation}": supported values: Ignore, Warn, Strict',
            "FieldValueNotSupported",
        )
        raise invalid(call.resource, call.name, [cause])
    writer = Writer(call.query.get("fieldManager", ""), call.agent, call.subresource)
    dry_run = _dry_run(call, call.query.get("dryRun"))
    return WriteOptions(dry_run, validation, writer=writer)


def _dry_run(call: Call, value: Any) -> bool:
    if not value:
        return False
    if value in ("All", ["All"]):
        return True
    cause = Cause(
        "dryRun", f'Unsupported value: {value!r}: supported values: "All"', "FieldValueNotSupported"
    )
    raise invalid(call.resource, call.name, [cause])


def delete_options(call: Call, body: Any) -> DeleteOptions:
    """Parse the options of a deletion from its body ({} for none) and query.

    Raises ApiError 400 or 422.
    """
    if not isinstance(body, dict):
        raise bad_request("the body of a deletion is a DeleteOptions object")
    policy = body.get("propagationPolicy") or call.query.get("propagationPolicy")
    if policy not in (None, "Background", "Foreground", "Orphan"):
        cause = Cause(
            "propagationPolicy",
            f'Unsupported value: "{policy}": supported values: Background, Foreground, Orphan',
            "FieldValueNotSupported",
        )
        raise invalid(call.resource, call.name, [cause])
    grace = body.get("gracePeriodSeconds", call.query.get("gracePeriodSeconds"))
    if isinstance(grace, str):
        if not grace.lstrip("-").isdigit():
            raise bad_request(f"gracePeriodSeconds is a number of seconds, not {grace!r}")
        grace = int(grace)
    preconditions = body.get("preconditions") or {}
    return DeleteOptions(
        grace=grace,
        uid=preconditions.get("uid") or "",
        rv=preconditions.get("resourceVersion") or "",
        orphan=policy == "Orphan" or bool(body.get("orphanDependents")),
        foreground=policy == "Foreground",
        dry_run=_dry_run(call, body.get("dryRun") or call.query.get("dryRun")),
    )
