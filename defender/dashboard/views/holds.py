"""The reasons for which jobs are held, in plain words, and what a person can do about each."""

HOLDS = {
    "AwaitingPermit": "Has asked for a permit, or is about to.",
    "ConcurrencyLimit": "As many permits as the limit allows are held in its scope.",
    "RateLimit": "The limit's permits per time are used up.",
    "MinHealthy": "Too few nodes would stay healthy.",
    "PerNode": "The node was disrupted too often lately.",
    "BreakerOpen": "Too much is wrong in its scope at once.",
    "CommonCause": "Many faults share a kernel, image or revision: repairs cure nothing.",
    "WindowClosed": "Acts of this kind wait for their window.",
    "Paused": "A person has stopped acts here.",
    "Excluded": "The policy excludes the node.",
    "DisplacedPods": "Too many pods that we displaced are still pending.",
    "StaleData": "Kube Defender does not see the cluster well enough to say yes.",
    "StoreUnavailable": "Permits cannot be read or written now.",
    "NodeBusy": "Another holder has a permit for the node.",
    "PDBBlocked": "A PodDisruptionBudget allows no eviction now.",
    "DefenderUnreachable": "The operator cannot reach Kube Defender.",
    "FaultUnknown": "The evidence is unknown now, neither true nor false.",
    "GuardTrue": "A guard of the rule forbids the repair now.",
}
HOLDS_MAY = {
    "PerNode": "Look at the node; raise perNode in the policy only if repairs are known to help.",
    "CommonCause": "Look at what the nodes have in common; roll it back rather than repair nodes.",
    "Paused": "Resume it on the page Pauses.",
    "Excluded": "Remove the label that excludes the node, if that is meant.",
    "PDBBlocked": "See which PodDisruptionBudget on the node's page; its owner may scale up.",
    "StaleData": "See whether the API server answers; it is tried again by itself.",
    "StoreUnavailable": "See whether the API server takes writes; it is tried again by itself.",
}
