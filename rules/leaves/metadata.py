"""Reads labels, annotations and taints of the Node."""

from collections.abc import Mapping
from datetime import datetime

from kubenode.api.v1alpha1.leaves import AnnotationLeaf, LabelLeaf, TaintLeaf
from rules.facts import FactSet
from rules.leaves.result import LeafReading
from rules.truth import Truth


def _lookup(
    kind: str, leaf: LabelLeaf | AnnotationLeaf | TaintLeaf, have: Mapping[str, str]
) -> LeafReading:
    value = have.get(leaf.key)
    if leaf.value is not None:
        truth = value == leaf.value
    elif leaf.in_ is not None:
        truth = value in leaf.in_
    else:
        truth = (value is not None) == (leaf.exists is not False)
    shown = "is absent" if value is None else f"is {value!r}"
    return LeafReading(Truth.of(truth), f"{kind} {leaf.key}", shown, value, "Node")


def label(leaf: LabelLeaf, facts: FactSet, now: datetime) -> LeafReading:
    return _lookup("label", leaf, facts.labels)


def annotation(leaf: AnnotationLeaf, facts: FactSet, now: datetime) -> LeafReading:
    return _lookup("annotation", leaf, facts.annotations)


def taint(leaf: TaintLeaf, facts: FactSet, now: datetime) -> LeafReading:
    return _lookup("taint", leaf, facts.taints)
