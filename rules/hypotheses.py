"""Evaluates rules as if some leaves had other truths, with the reference's trees. Pure.

It answers two questions: on how many nodes is everything true except the count of such nodes, and
which probes are worth asking because nothing else is missing.
"""

from collections.abc import Collection, Mapping

from kubenode.api.v1alpha1.leaves import AbsentLeaf, ProbeLeaf
from rules.engines.port import FALSE, TRUE, TRUTHS, UNKNOWN, Vector
from rules.engines.reference import evaluate
from rules.program import CompiledRule, Root, RuleProgram, VectorSlot, slots_of
from rules.truth import Truth


def without_counts(rule: CompiledRule, vector: Vector) -> Truth:
    """Return the evidence with every `sameFault` leaf assumed true."""
    if not rule.same_fault:
        return TRUTHS[evaluate(rule.evidence, vector)]
    supposed = bytearray(vector)
    for slot in rule.same_fault:
        supposed[slot] = TRUE
    return TRUTHS[evaluate(rule.evidence, bytes(supposed))]


def worth_asking(rule: CompiledRule, vector: Vector, probes: Mapping[int, str]) -> tuple[str, ...]:
    """Return the unknown probes whose answers alone could make the rule match, sorted.

    Empty while another kind of leaf is missing. Probes of the evidence are left out if it is true
    already, probes of the guards if the guards are known. probes: name by slot.
    """
    if not probes:
        return ()
    evidence = _open(rule.evidence, vector, probes)
    guards = _open(rule.guards, vector, probes) if rule.guards is not None else frozenset()
    free = evidence | guards
    if not free or _hoped(rule.evidence, vector, free, True) != TRUE:
        return ()
    if rule.guards is not None and _hoped(rule.guards, vector, free, False) == TRUE:
        return ()
    return tuple(sorted({probes[slot] for slot in free}))


def probes_of(program: RuleProgram) -> dict[int, str]:
    """Return the probe's name by slot, for atoms that read a probe."""
    leaves = (leaf.leaf if isinstance(leaf, AbsentLeaf) else leaf for leaf in program.atoms)
    return {slot: leaf.name for slot, leaf in enumerate(leaves) if isinstance(leaf, ProbeLeaf)}


def _open(root: Root, vector: Vector, probes: Mapping[int, str]) -> frozenset[int]:
    """Return the unknown probes of a root that is itself unknown."""
    if evaluate(root, vector) != UNKNOWN:
        return frozenset()
    return frozenset(s for s in slots_of(root) if s in probes and vector[s] == UNKNOWN)


def _hoped(root: Root, vector: Vector, free: Collection[int], wish: bool) -> int:
    """Evaluate the root with each `free` leaf set to bring it nearest to `wish`."""
    if isinstance(root, VectorSlot):
        if root.index not in free:
            return vector[root.index]
        return TRUE if wish else FALSE
    below = wish if root.op != "not" else not wish
    members = [_hoped(member, vector, free, below) for member in root.members]
    if root.op == "not":
        return TRUE - members[0]
    return min(members) if root.op == "all" else max(members)
