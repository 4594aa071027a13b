"""A leaf in a few words."""

from functools import lru_cache

from kubenode.api.v1alpha1.leaves import (
    AbsentLeaf,
    AlertLeaf,
    AnnotationLeaf,
    ConditionLeaf,
    EventLeaf,
    FactLeaf,
    HostEventLeaf,
    LabelLeaf,
    Leaf,
    ProbeLeaf,
    TaintLeaf,
)
from kubenode.api.v1alpha1.window import TimeWindow
from rules.leaves.reading import span


@lru_cache(maxsize=4096)
def _joined(parts: tuple[str, ...]) -> str:
    return " ".join(filter(None, parts))


def describe(leaf: Leaf | AbsentLeaf) -> str:
    """Such as `condition KernelDeadlock=True for 30s`."""
    match leaf:
        case ConditionLeaf():
            held = f"for {span(leaf.for_)}" if leaf.for_ else ""
            return _joined(("condition", f"{leaf.type}={leaf.status}", *_says(leaf), held))
        case EventLeaf():
            what = leaf.reason or f"~{leaf.message}"
            return _joined(("event", what, f"{leaf.count} times within {span(leaf.within)}"))
        case LabelLeaf():
            return _keyed("label", leaf)
        case AnnotationLeaf():
            return _keyed("annotation", leaf)
        case TaintLeaf():
            return _keyed("taint", leaf)
        case FactLeaf():
            asked = _window(leaf.window) if leaf.window is not None else _comparison(leaf)
            return f"fact {leaf.name} {asked}"
        case ProbeLeaf():
            return f"probe {leaf.name} {_comparison(leaf)}"
        case HostEventLeaf():
            whose = f"of {leaf.source}" if leaf.source else ""
            phase = f"in phase {leaf.phase}" if leaf.phase else ""
            return _joined(("hostEvent", leaf.class_ or "any", whose, phase, leaf.severity or ""))
        case AlertLeaf():
            held = f"for {span(leaf.for_)}" if leaf.for_ else ""
            labels = ",".join(f"{key}={value}" for key, value in leaf.labels.items())
            return _joined(("alert", leaf.name, labels and f"{{{labels}}}", held))
        case AbsentLeaf():
            held = f"for {span(leaf.for_)}" if leaf.for_ else ""
            return _joined(("absent", describe(leaf.leaf), held))


def _says(leaf: ConditionLeaf) -> tuple[str, str]:
    return (
        f"reason ~{leaf.reason}" if leaf.reason else "",
        f"message ~{leaf.message}" if leaf.message else "",
    )


def _keyed(kind: str, leaf: LabelLeaf | AnnotationLeaf | TaintLeaf) -> str:
    if leaf.value is not None:
        return f"{kind} {leaf.key}={leaf.value}"
    if leaf.in_ is not None:
        return f"{kind} {leaf.key} in {', '.join(leaf.in_)}"
    return f"{kind} {leaf.key} {'exists' if leaf.exists is not False else 'is absent'}"


def _comparison(leaf: FactLeaf | ProbeLeaf) -> str:
    for word, wanted in (("=", leaf.equals), ("<", leaf.below), (">", leaf.above)):
        if wanted is not None:
            return f"{word} {wanted:g}" if isinstance(wanted, float) else f"{word} {wanted}"
    if leaf.in_ is not None:
        return f"in {', '.join(map(str, leaf.in_))}"
    return f"is {'true' if leaf.is_ is not False else 'false'}"


def _window(window: TimeWindow) -> str:
    days = ",".join(window.days) if len(window.days) < 7 else "daily"
    return f"{days} {window.from_}-{window.to} {window.time_zone}"
