"""The service account of agents that a DaemonSet runs: their pods have no certificates of their
own.

The API server returns the owner of a token and the node of its pod.
"""

from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.reviews import ReviewClient, ReviewedUser, TokenReviewer

ACCOUNT = "system:serviceaccount:kubenode-agents:kubenode-agent"
"""Service account of the DaemonSet in charts/kubenode/agent."""
NODE_CLAIM = "authentication.kubernetes.io/node-name"
SECONDS = 60.0
"""How long an answer is cached, so how long a revoked token works."""
MOST = 16_384


def agent_token_reviewer(kube: Kube, clock: Clock, audience: str = "") -> TokenReviewer:
    """Return the reviewer of agents' tokens. `audience`: "" is the API server itself."""
    client = ReviewClient(kube, clock)
    return TokenReviewer(client, clock, audience=audience, seconds=SECONDS, most=MOST)


def agent_of(user: ReviewedUser) -> str:
    """Return the agent whose pod has this user, which is its node's name; "" for none."""
    claimed = (user.extra or {}).get(NODE_CLAIM) or [""]
    return claimed[0] if user.username == ACCOUNT and len(claimed) == 1 else ""
