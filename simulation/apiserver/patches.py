"""The patch types: JSON merge (RFC 7386), JSON (RFC 6902) and strategic merge.

Every function returns a new object, which shares unchanged parts with the old one, and changes
nothing in place: the old one is in the store. Strategic merge finds list keys by field name, which
is exact for the served built-in kinds. Source of the keys: `patchMergeKey` tags in k8s.io/api.
"""

from collections.abc import Mapping
from typing import Any

from simulation.apiserver.errors import ApiError, Obj, bad_request

MERGE_KEYS: Mapping[str, str] = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "ports": "containerPort",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "secrets": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
MERGE_SETS = frozenset({"finalizers", "podCIDRs"})


def merge(target: Any, patch: Any) -> Any:
    """Merge by RFC 7386: null removes a field, lists are replaced."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


# ---- RFC 6902


def json_patch(target: Any, operations: Any) -> Any:
    """Apply a list of operations. Raises ApiError 400 (malformed) or 422 (cannot be applied)."""
    if not isinstance(operations, list):
        raise bad_request("a JSON patch is a list of operations")
    for operation in operations:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise bad_request(f"not a JSON patch operation: {operation!r}")
        target = _operate(target, operation)
    return target


def _operate(target: Any, operation: Obj) -> Any:
    path = _pointer(operation["path"])
    match operation.get("op"):
        case "add":
            return _put(target, path, _needed(operation, "value"), insert=True)
        case "replace":
            _at(target, path[:-1])  # the field itself may be absent, as on a real server
            return _put(target, path, _needed(operation, "value"), insert=False)
        case "remove":
            _at(target, path)
            return _remove(target, path)
        case "test":
            if _at(target, path, missing=None) != _needed(operation, "value"):
                raise _cannot(f"testing value {operation['path']} failed")
            return target
        case "copy":
            return _put(target, path, _at(target, _pointer(_needed(operation, "from"))), True)
        case "move":
            source = _pointer(_needed(operation, "from"))
            value = _at(target, source)
            return _put(_remove(target, source), path, value, insert=True)
        case other:
            raise _cannot(f"unknown JSON patch operation {other!r}")


def _cannot(why: str) -> ApiError:
    return ApiError(
        422, "Invalid", f"the server rejected our request due to an error in our request: {why}"
    )


def _needed(operation: Obj, key: str) -> Any:
    if key not in operation:
        raise bad_request(f"JSON patch operation {operation.get('op')!r} needs {key!r}")
    return operation[key]


def _pointer(text: str) -> list[str]:
    if text and not text.startswith("/"):
        raise bad_request(f"not a JSON pointer: {text!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _index(items: list[Any], part: str, limit: int) -> int:
    if not part.isdigit() or int(part) > limit:
        raise _cannot(f"no index {part!r} in a list of {len(items)}")
    return int(part)


_REQUIRED = object()


def _at(value: Any, path: list[str], missing: Any = _REQUIRED) -> Any:
    for depth, part in enumerate(path):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        elif missing is _REQUIRED:
            raise _cannot(f"missing value at /{'/'.join(path[: depth + 1])}")
        else:
            return missing
    return value


def _put(target: Any, path: list[str], value: Any, insert: bool) -> Any:
    if not path:
        return value
    part, rest = path[0], path[1:]
    if isinstance(target, dict):
        if rest and part not in target:
            raise _cannot(f"missing value at {part!r}")
        return {**target, part: _put(target.get(part), rest, value, insert)}
    if isinstance(target, list):
        copy = list(target)
        if part == "-" and not rest and insert:
            return [*copy, value]
        if rest or not insert:
            index = _index(copy, part, len(copy) - 1)
            copy[index] = _put(copy[index], rest, value, insert)
        else:
            copy.insert(_index(copy, part, len(copy)), value)
        return copy
    raise _cannot(f"no field {part!r} in a plain value")


def _remove(target: Any, path: list[str]) -> Any:
    if not path:
        raise _cannot("the whole object cannot be removed")
    part, rest = path[0], path[1:]
    if isinstance(target, dict):
        if rest:
            return {**target, part: _remove(target[part], rest)}
        return {key: value for key, value in target.items() if key != part}
    copy = list(target)
    index = _index(copy, part, len(copy) - 1)
    if rest:
        copy[index] = _remove(copy[index], rest)
    else:
        del copy[index]
    return copy


# ---- strategic merge


def strategic(target: Any, patch: Any, kind: str = "", key: str = "") -> Any:
    """Merge as Kubernetes does: lists of objects by key, controlled by `$` directives.

    kind: the kind of the whole object.
    key: the name of the field that is merged.
    """
    if isinstance(patch, dict):
        return _strategic_object(target, patch, kind)
    if isinstance(patch, list):
        return _strategic_list(target, patch, kind, key)
    return patch


def _merge_key(kind: str, key: str) -> str | None:
    return "port" if (kind, key) == ("Service", "ports") else MERGE_KEYS.get(key)


def _strategic_object(target: Any, patch: Obj, kind: str) -> Obj:
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    result: Obj = dict(target) if isinstance(target, dict) else {}
    keep = patch.get("$retainKeys")
    if keep is not None:
        result = {key: value for key, value in result.items() if key in keep}
    ordered: list[str] = []
    for key, value in patch.items():
        if key[:1] == "$":
            directive, _, name = key.partition("/")
            if directive == "$deleteFromPrimitiveList":
                result[name] = [item for item in result.get(name) or () if item not in value]
            elif directive == "$setElementOrder":
                ordered.append(name)
        elif isinstance(value, dict | list):
            if isinstance(value, dict) and value.get("$patch") == "delete":
                result.pop(key, None)
            else:
                result[key] = strategic(result.get(key), value, kind, key)
        elif value is None:
            result.pop(key, None)
        else:
            result[key] = value
    for name in ordered:
        if isinstance(result.get(name), list):
            order = patch[f"$setElementOrder/{name}"]
            result[name] = _ordered(result[name], order, _merge_key(kind, name))
    return result


def _ordered(items: list[Any], order: list[Any], merge_key: str | None) -> list[Any]:
    def identity(item: Any) -> Any:
        return item.get(merge_key) if merge_key and isinstance(item, dict) else item

    place = {identity(item): at for at, item in enumerate(order)}
    return sorted(items, key=lambda item: place.get(identity(item), len(place)))


def _strategic_list(target: Any, patch: list[Any], kind: str, key: str) -> list[Any]:
    old = target if isinstance(target, list) else []
    if key in MERGE_SETS:
        return list(dict.fromkeys([*old, *patch]))
    merge_key = _merge_key(kind, key)
    if merge_key is None or not all(isinstance(item, dict) for item in patch):
        return patch
    if any(item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if "$patch" not in item]
    result: list[Any] = list(old)
    places: dict[Any, int] = {}
    for place, was in enumerate(old):
        places.setdefault(was.get(merge_key), place)
    for item in patch:
        if merge_key not in item:
            raise bad_request(f"map: {item!r} does not contain declared merge key: {merge_key}")
        at = places.setdefault(item[merge_key], len(result))
        if item.get("$patch") == "delete":
            result[at : at + 1] = [None] * (at < len(result))
        elif at == len(result):
            result.append(strategic({}, item, kind))
        else:
            result[at] = strategic(result[at] or {}, item, kind)
    return [item for item in result if item is not None]
