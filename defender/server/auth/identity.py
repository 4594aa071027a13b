"""Identity of a caller, and rights about which to ask. No I/O."""

from dataclasses import dataclass
from enum import StrEnum

from kubenode.api.base import GROUP

READING = frozenset({"get", "list", "watch"})
ASKING = frozenset({"create", "update"})
PERMITS, ASKS = "permits", "permits/ask"
ASK_ANY, RELEASE_ANY = "permits/ask-any", "permits/release-any"
"""Reading is a right on permits, asking one on a subresource without objects.

Whoever may ask must not be able to write a Permit directly. `ask-any` is the right to ask for
holders of our own programs, `release-any` the right to renew and release permits of other callers.
"""


class Proof(StrEnum):
    """How the caller is known."""

    CERTIFICATE = "Certificate"
    TOKEN_REVIEW = "TokenReview"
    TOKEN_FILE = "TokenFile"
    LOOPBACK = "Loopback"
    """Not proven: any caller on this host, without other configuration."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A user as known to the API server. `extra` is from the TokenReview."""

    name: str
    groups: tuple[str, ...] = ()
    proof: Proof = Proof.TOKEN_REVIEW
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def of_the_api_server(self) -> bool:
        """Whether the API server can authorize this user."""
        return self.proof in (Proof.CERTIFICATE, Proof.TOKEN_REVIEW)


TOKEN_FILE = Identity("token-file", proof=Proof.TOKEN_FILE)
LOOPBACK = Identity("loopback", proof=Proof.LOOPBACK)
AUTHENTICATED = "system:authenticated"


@dataclass(frozen=True, slots=True)
class Right:
    """A verb on a resource (`permits`, `remedyoperationjobs/status`) of a group, as in RBAC."""

    verb: str
    resource: str
    name: str = ""
    group: str = GROUP

    def __str__(self) -> str:
        named = f" {self.name}" if self.name else ""
        return f"{self.verb} {self.resource}.{self.group}{named}"


def without_review(right: Right) -> bool:
    """Return whether a caller that the API server does not know has the right: to ask and to
    read.
    """
    if right.group != GROUP:
        return False
    return right.verb in READING or (right.verb in ASKING and right.resource == ASKS)
