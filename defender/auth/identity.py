"""Who calls Kube Defender, and what may be asked about them. No I/O."""

from dataclasses import dataclass
from enum import StrEnum

from kubenode.api.base import GROUP

READING = frozenset({"get", "list", "watch"})
ASKING = frozenset({"create", "update"})
PERMITS, ASKS = "permits", "permits/ask"
ASK_ANY, RELEASE_ANY = "permits/ask-any", "permits/release-any"
"""Reading is a right on the permits. Asking is one on a subresource of which there are no objects:
whoever may ask must not be able to write a Permit past Kube Defender. With the two others one asks
for holders of our own programs, and keeps or gives back what somebody else asked for."""


class Proof(StrEnum):
    """How we know."""

    CERTIFICATE = "Certificate"
    TOKEN_REVIEW = "TokenReview"
    TOKEN_FILE = "TokenFile"
    LOOPBACK = "Loopback"
    """Not at all: whoever is on this host, where nothing else was configured."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A user as the API server knows users. `extra` is what a TokenReview said beside."""

    name: str
    groups: tuple[str, ...] = ()
    proof: Proof = Proof.TOKEN_REVIEW
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def of_the_api_server(self) -> bool:
        """Whether the API server can say what this user may do."""
        return self.proof in (Proof.CERTIFICATE, Proof.TOKEN_REVIEW)


TOKEN_FILE = Identity("token-file", proof=Proof.TOKEN_FILE)
LOOPBACK = Identity("loopback", proof=Proof.LOOPBACK)
AUTHENTICATED = "system:authenticated"


@dataclass(frozen=True, slots=True)
class Right:
    """A verb on a resource (`permits`, `remedyoperationjobs/status`) of a group, by RBAC."""

    verb: str
    resource: str
    name: str = ""
    group: str = GROUP

    def __str__(self) -> str:
        named = f" {self.name}" if self.name else ""
        return f"{self.verb} {self.resource}.{self.group}{named}"


def without_review(right: Right) -> bool:
    """What those may do whom the API server does not know: ask for permits, and read."""
    if right.group != GROUP:
        return False
    return right.verb in READING or (right.verb in ASKING and right.resource == ASKS)
