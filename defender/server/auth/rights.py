"""Rights of callers on permits, and of callers that the API server does not know. No I/O."""

from kubenode.api.base import GROUP
from kubenode.runtime.kube.identity import Identity, Proof, Right

READING = frozenset({"get", "list", "watch"})
ASKING = frozenset({"create", "update"})
PERMITS, ASKS = "permits", "permits/ask"
ASK_ANY, RELEASE_ANY = "permits/ask-any", "permits/release-any"
"""Reading is a right on permits, asking one on a subresource without objects.

Whoever may ask must not be able to write a Permit directly. `ask-any` is the right to ask for
holders of our own programs, `release-any` the right to renew and release permits of other callers.
"""
TOKEN_FILE = Identity("token-file", proof=Proof.TOKEN_FILE)
LOOPBACK = Identity("loopback", proof=Proof.LOOPBACK)


def without_review(right: Right) -> bool:
    """Return whether a caller that the API server does not know has the right: to ask and to
    read.
    """
    if right.group != GROUP:
        return False
    return right.verb in READING or (right.verb in ASKING and right.resource == ASKS)
