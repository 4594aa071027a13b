"""Reasons for which jobs are held, as text, and what a person can do about each."""

from defender.decision.jobs import JobHold
from defender.decision.limits.table import DISPLAYED
from kubenode.api.v1alpha1 import Reason
from kubenode.api.waits import WAITS, sentence

DEFENDER_REASONS = frozenset(reason.value for reason in Reason)

NO_VERDICT = "NoVerdict"
"""In place of the reason of a job that waits for a permit and has had no verdict on it."""

HOLDS = {
    **{reason: sentence(reason) for reason in WAITS},
    **{each.reason.value: each.texts.hold for each in DISPLAYED},
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
    "PolicyInvalid": "A policy that covers the node cannot be read or kept.",
    "Unknown": "Kube Defender does not know the node, or what is asked of it.",
    "ForeignOwner": "Another remediator is in charge of the node.",
    "PermitLost": "Its permit was revoked or has ended.",
    "ProviderUnreachable": "Whoever runs the machine does not answer, or not now.",
    "ActRefused": "The last look before the act found something against it.",
    NO_VERDICT: "The job asked for a permit, and Kube Defender has not answered.",
    "ReceiverUnreachable": "Whom the job hands over to, or tells, does not answer.",
}
HOLDS_MAY = {
    NO_VERDICT: "See whether Kube Defender leads and answers; the job asks again by itself.",
    "PerNode": "Look at the node; raise perNode in the policy only if repairs are known to help.",
    "CommonCause": "Look at what the nodes have in common; roll it back rather than repair nodes.",
    "Paused": "Resume it on the page Pauses.",
    "Excluded": "Remove the label that excludes the node, if that is meant.",
    "PDBBlocked": "See which PodDisruptionBudget on the node's page; its owner may scale up.",
    "PolicyInvalid": "Correct the policy; what it covers is allowed again within seconds.",
    "ForeignOwner": "See who owns the node; we act once they let go.",
    "EnginesDisagree": "Report it: the rule's evidence is read in two ways.",
    "StaleData": "See whether the API server answers; it is tried again by itself.",
    "StoreUnavailable": "See whether the API server takes writes; it is tried again by itself.",
    "ProviderUnreachable": "Look at the provider: credentials, network, its own state.",
    "ReceiverUnreachable": "Look at the receiver: its address, its credentials, its own state.",
}


def hold_sentence(hold: JobHold) -> str:
    """Return the message of the hold. Kube Defender's figures are from the job's last request."""
    if hold.message and hold.reason in DEFENDER_REASONS:
        return f"At the last request: {hold.message}"
    return hold.message
