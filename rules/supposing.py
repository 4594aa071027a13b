"""What the engines' answer would be if some leaves were otherwise. Pure, by the reference's trees.

Two questions of a rule's author need it: on how many nodes does everything hold but the count of
such nodes itself, and which probes are worth asking because nothing else is missing.
"""

from collections.abc import Callable, Mapping

from kubenode.api.v1alpha1.leaves import AbsentLeaf, ProbeLeaf
from rules.engines.port import Vector
from rules.program import CompiledRule, Program, Root, Slot, slots_of
from rules.truth import Truth


def without_counts(rule: CompiledRule, vector: Vector) -> Truth:
    """The evidence with every `sameFault` leaf taken as true."""
    counts = frozenset(getattr(rule, "same_fault", ()))
    return _folded(rule.evidence, lambda slot, _: Truth.TRUE if slot in counts else vector[slot])


def worth_asking(rule: CompiledRule, vector: Vector, probes: Mapping[int, str]) -> tuple[str, ...]:
    """Unknown probes (by slot) whose answers alone could make the rule match; sorted.

    None while a leaf of another kind is missing. Those of the evidence are left out when it is
    true already, those of the guards when they are known.
    """
    if not probes:
        return ()
    evidence = _open(rule.evidence, vector, probes)
    guards = _open(rule.guards, vector, probes) if rule.guards is not None else frozenset()
    if not evidence and not guards:
        return ()
    free = evidence | guards

    def hoped(slot: int, wish: bool) -> Truth:
        return Truth.of(wish) if slot in free else vector[slot]

    if _folded(rule.evidence, hoped, True) is not Truth.TRUE:
        return ()
    if rule.guards is not None and _folded(rule.guards, hoped, False) is Truth.TRUE:
        return ()
    return tuple(sorted({probes[slot] for slot in free}))


def probes_of(program: Program) -> dict[int, str]:
    """Slots of the atoms that ask a probe, to its name."""
    leaves = (leaf.leaf if isinstance(leaf, AbsentLeaf) else leaf for leaf in program.atoms)
    return {slot: leaf.name for slot, leaf in enumerate(leaves) if isinstance(leaf, ProbeLeaf)}


def _open(root: Root, vector: Vector, probes: Mapping[int, str]) -> frozenset[int]:
    """The unknown probes of a root that is not decided without them."""
    if _folded(root, lambda slot, _: vector[slot]) is not Truth.UNKNOWN:
        return frozenset()
    unknown = (slot for slot in slots_of(root) if vector[slot] is Truth.UNKNOWN)
    return frozenset(slot for slot in unknown if slot in probes)


def _folded(root: Root, leaf: Callable[[int, bool], Truth], wish: bool = True) -> Truth:
    """The root with what `leaf` says of a slot and of whether its being true would help."""
    if isinstance(root, Slot):
        return leaf(root.index, wish)
    below = wish if root.op != "not" else not wish
    members = [_folded(member, leaf, below) for member in root.members]
    if root.op == "not":
        return ~members[0]
    return Truth.all(members) if root.op == "all" else Truth.any(members)
