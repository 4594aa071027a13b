"""Faults and evidence of rules in words. Pure."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from kubenode.api.step_text import describe_steps
from kubenode.api.v1alpha1.ladder import Step
from kubenode.api.v1alpha1.leaves import Expression
from rules.leaves.describe import describe

ABBREVIATIONS = {
    **{word: word.upper() for word in ("cni", "cpu", "cri", "dns", "gpu", "io", "ipam", "lvm")},
    **{word: word.upper() for word in ("ntp", "oom", "pid", "pleg", "raid", "rdma", "xfs", "xid")},
    **{"apiserver": "API server", "cert": "certificate", "fd": "file descriptor"},
    **{"dbe": "double-bit error", "fs": "file system", "gc": "garbage collection"},
    **{"hw": "hardware", "iface": "interface", "nic": "network interface", "storm": "fault storm"},
}
"""Words of fault classes that are written otherwise in a sentence."""


def describe_fault(fault_class: str) -> str:
    """Return a fault class in words: `fs_readonly` is `File system readonly`."""
    parts = fault_class.replace("_", " ").replace("-", " ").split()
    text = " ".join(ABBREVIATIONS.get(part, part) for part in parts)
    return text[:1].upper() + text[1:]


def describe_evidence(expression: Mapping[str, Any] | None) -> str:
    """Return the expression in words, "" if there is none or if it cannot be read."""
    return _describe(msgspec.json.encode(expression)) if expression else ""


@lru_cache(maxsize=4096)
def _describe(text: bytes) -> str:
    try:
        return _render(Expression.model_validate_json(text), nested=False)
    except ValueError:
        return ""


def _render(expression: Expression, *, nested: bool) -> str:
    if expression.leaf is not None:
        return describe(expression.leaf)
    parts = [_render(member, nested=True) for member in expression.members]
    if expression.not_ is not None:
        return f"not {parts[0]}"
    joined = (" and " if expression.all is not None else " or ").join(parts)
    return f"({joined})" if nested and len(parts) > 1 else joined


def describe_rung(rung: Mapping[str, Any]) -> str:
    """Return the steps of a rung in words, "" if they cannot be read."""
    try:
        return describe_steps(Step.model_validate(step) for step in rung.get("steps") or ())
    except (ValueError, TypeError):
        return ""
