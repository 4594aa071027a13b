"""Users of the API server, and rights about which to ask. No I/O."""

from dataclasses import dataclass
from enum import StrEnum

from kubenode.api.base import GROUP


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
