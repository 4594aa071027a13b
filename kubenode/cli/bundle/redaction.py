"""Removes secrets from objects and logs before they leave the cluster. Pure.

A bundle is read by people who may not read the cluster's Secrets, so the collection never requests
one. Values in other objects are hidden by the name of their field or by their form.
"""

import re
from typing import Any

from agent.diagnostics.redaction import HIDDEN, redacted

_SECRET_FIELD = re.compile(
    r"(token|password|passwd|passphrase|secret|credentials?|private_?key|api_?key|access_?key"
    r"|authorization|bearer|cookie)$",
    re.IGNORECASE,
)
_DROPPED = frozenset(
    {"managedFields", "caBundle", "kubectl.kubernetes.io/last-applied-configuration"}
)
_PRINTED = frozenset({"output", "content", "contents", "script"})
"""Fields with output of a host or files for hosts. Their content is unknown, so only their length
is kept.
"""
_OURS = "KUBENODE_"
_QUERY = re.compile(
    r"(?<=[?&])([\w.-]*(?:token|sig|signature|key|password)[\w-]*)=[^&\s\"']+", re.I
)
_HOOK = re.compile(r"(?<=://)([\w.-]*(?:hooks?|webhook)[\w.-]*/)[^\s\"']+", re.I)
_BOOTSTRAP = re.compile(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b")
"""A bootstrap token. Source: Kubernetes documentation of kubeadm."""
DEEPEST = 64


def without_secrets(value: Any, field: str = "", deep: int = 0) -> Any:
    """Return a copy of decoded JSON without secrets.

    field: the name of the field that has `value`, "" for the whole object.
    deep: the depth at which `value` is; anything below DEEPEST is hidden.
    """
    if deep > DEEPEST:
        return HIDDEN
    if field in _PRINTED and value:
        return f"({len(str(value))} characters)"
    if isinstance(value, dict):
        if _is_variable(value):
            return _variable(value, deep)
        return {
            key: without_secrets(item, key, deep + 1)
            for key, item in value.items()
            if key not in _DROPPED
        }
    if isinstance(value, list):
        return [without_secrets(item, field, deep + 1) for item in value]
    if _SECRET_FIELD.search(field) and value not in (None, "", True, False):
        return HIDDEN
    return clean(value) if isinstance(value, str) else value


def clean(text: str) -> str:
    """Hide secrets in a text, such as the lines of a log."""
    text = _QUERY.sub(rf"\1={HIDDEN}", _HOOK.sub(rf"\1{HIDDEN}", redacted(text)))
    return _BOOTSTRAP.sub(HIDDEN, text)


def _is_variable(value: dict[str, Any]) -> bool:
    return isinstance(value.get("name"), str) and isinstance(value.get("value"), str)


def _variable(value: dict[str, Any], deep: int) -> dict[str, Any]:
    """Redact an environment variable of a container.

    Only the values of our own settings are kept: they have no secrets unless by mistake.
    """
    name = value["name"]
    known = name.startswith(_OURS) and not _SECRET_FIELD.search(name)
    rest = {k: without_secrets(v, k, deep + 1) for k, v in value.items() if k != "value"}
    return rest | {"value": clean(value["value"]) if known else HIDDEN}
