"""Transitions of a set's phase. Each reconcile computes the phase from its observation and the
state.

A set with a new spec starts from whatever phase it is in. A batch does not reach inspection or bake
time before it has changed its machines.
"""

from kubenode.api.v1alpha1.machinecomponentset import RolloutPhase as P

WHEN: dict[tuple[P, P], str] = {
    (P.IDLE, P.STAGING): "the first batch is opened",
    (P.STAGING, P.UPDATING): "a machine of the batch is at work",
    (P.UPDATING, P.INSPECTING): "all of the batch are well, and there are checks",
    (P.UPDATING, P.BAKING): "all of the batch are well",
    (P.STAGING, P.INSPECTING): "likewise, all at once",
    (P.STAGING, P.BAKING): "likewise, all at once",
    (P.INSPECTING, P.BAKING): "the checks pass",
    (P.BAKING, P.INSPECTING): "bakeUntil has come: the checks are asked again",
    (P.BAKING, P.STAGING): "the batch is over: the next one",
    (P.INSPECTING, P.STAGING): "likewise, by the checks",
    (P.BAKING, P.UPDATING): "a machine of the batch is not well any more",
    (P.BAKING, P.COMPLETED): "the batch is over: it was the last",
    (P.INSPECTING, P.COMPLETED): "likewise, by the checks",
    (P.ROLLING_BACK, P.COMPLETED): "all are at the current revision, which the spec asks for",
    (P.ROLLING_BACK, P.IDLE): "all are at the current revision: the other one is rejected",
}
"""Transitions of an undisturbed rollout, with their cause."""
FROM_ALL = (P.IDLE, P.STAGING, P.UPDATING, P.ROLLING_BACK, P.PAUSED)
"""Phases that every phase can lead to: after a change of the spec, of the members, or a stop."""
EDGES: dict[P, frozenset[P]] = {
    phase: frozenset(
        {b for a, b in WHEN if a is phase}
        | set(FROM_ALL)
        | {P.COMPLETED}
        | ({P.INSPECTING, P.BAKING} if phase in (P.PAUSED, P.STAGING, P.UPDATING) else set())
    )
    - {phase}
    for phase in P
}
"""Phases that may follow each phase."""
