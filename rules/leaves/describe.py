"""Describes a leaf in a few words."""

from functools import lru_cache

from kubenode.api.duration import format_duration as span
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


@lru_cache(maxsize=4096)
def _joined(parts: tuple[str, ...]) -> str:
    return " ".join(filter(None, parts))


def describe(leaf: Leaf | AbsentLeaf) -> str:
    """Describe a leaf, such as `condition KernelDeadlock=True for 30s`."""
    match leaf:
        case ConditionLeaf():
            duration = f"for {span(leaf.for_)}" if leaf.for_ else ""
            return _joined(("condition", f"{leaf.type}={leaf.status}", *_says(leaf), duration))
        case EventLeaf():
            times = f"{leaf.count} times" if leaf.count > 1 else ""
            return _joined((subject(leaf), times, f"within {span(leaf.within)}"))
        case LabelLeaf():
            return _keyed("label", leaf)
        case AnnotationLeaf():
            return _keyed("annotation", leaf)
        case TaintLeaf():
            return _keyed("taint", leaf)
        case FactLeaf():
            comparison = windowed(leaf.window) if leaf.window is not None else _comparison(leaf)
            return f"{subject(leaf)} {comparison}"
        case ProbeLeaf():
            duration = f"for {span(leaf.for_)}" if leaf.for_ else ""
            return _joined((subject(leaf), _comparison(leaf), duration))
        case HostEventLeaf():
            phase = f"in phase {leaf.phase}" if leaf.phase else ""
            return _joined((subject(leaf), phase, leaf.severity or ""))
        case AlertLeaf():
            duration = f"for {span(leaf.for_)}" if leaf.for_ else ""
            return _joined((subject(leaf), duration))
        case AbsentLeaf():
            duration = f"for {span(leaf.for_)}" if leaf.for_ else ""
            return _joined(("absent", describe(leaf.leaf), duration))


def subject(leaf: Leaf | AbsentLeaf) -> str:
    """Describe what a leaf reads, without the comparison, such as `condition KernelDeadlock`."""
    match leaf:
        case ConditionLeaf():
            return f"condition {leaf.type}"
        case EventLeaf():
            return f"event {leaf.reason}" if leaf.reason else f"event ~{leaf.message}"
        case LabelLeaf():
            return f"label {leaf.key}"
        case AnnotationLeaf():
            return f"annotation {leaf.key}"
        case TaintLeaf():
            return f"taint {leaf.key}"
        case FactLeaf():
            window = f"within {span(leaf.within)}" if leaf.within is not None else ""
            return _joined((f"fact {leaf.name}", window))
        case ProbeLeaf():
            return f"probe {leaf.name}"
        case HostEventLeaf():
            source = f"of {leaf.source}" if leaf.source else ""
            return _joined(("hostEvent", leaf.class_ or "of any class", source))
        case AlertLeaf():
            labels = ",".join(f"{key}={value}" for key, value in leaf.labels.items())
            return _joined(("alert", leaf.name, labels and f"{{{labels}}}"))
        case AbsentLeaf():
            return subject(leaf.leaf)


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
            return f"{word} {written(wanted) if isinstance(wanted, float) else wanted}"
    if leaf.in_ is not None:
        return f"in {', '.join(map(str, leaf.in_))}"
    return f"is {'true' if leaf.is_ is not False else 'false'}"


def written(wanted: float) -> str:
    """Format a number as people write it: 0.4, 3600, 42949672960."""
    return f"{wanted:.15g}"


def windowed(window: TimeWindow) -> str:
    """Format a window, such as `Mon,Tue 01:00-05:00 Europe/Berlin`."""
    days = ",".join(window.days) if len(window.days) < 7 else "daily"
    return f"{days} {window.from_}-{window.to} {window.time_zone}"
