"""The port to member clusters: one object read or written in one member.

Captain reaches a member with the rights of its kubeconfig. This port narrows them further: it reads
and writes the kinds of PAYLOAD_KINDS and nothing else.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from kubenode.api.v1alpha1.membercluster import MemberReason


class MemberUnreachable(Exception):
    """A member did not answer, refused Captain's identity or is paused.

    A write may or may not have happened.
    """

    def __init__(self, member: str, reason: MemberReason, message: str) -> None:
        super().__init__(f"member {member}: {reason}: {message}")
        self.member, self.reason, self.message = member, reason, message


class Member(Protocol):
    """One member cluster.

    Each call ends within CALL_SECONDS. It raises MemberUnreachable if the member gave no answer
    about the object, and a KubeError for an answer: Conflict (another field manager, or a write in
    between), Invalid and BadRequest (the object does not fit the member's CRD), NotFound (the
    member does not serve the kind). A kind that is not in PAYLOAD_KINDS is a ValueError.
    """

    @property
    def name(self) -> str: ...

    @property
    def labels(self) -> Mapping[str, str]: ...

    async def read(self, kind: str, name: str) -> dict[str, Any] | None:
        """Read an object live. None if it does not exist or the member serves no such kind."""
        ...

    async def list_all(self, kind: str) -> list[dict[str, Any]]:
        """Read all objects of a kind live. Empty if the member serves no such kind."""
        ...

    async def apply(self, obj: Mapping[str, Any], *, manager: str, force: bool) -> dict[str, Any]:
        """Apply an object on the server and return it. Fields of the server are left out.

        obj: with metadata.resourceVersion, an object of another version raises Conflict.
        force: take over fields of other field managers; else they raise Conflict.
        """
        ...

    async def replace(self, obj: Mapping[str, Any], *, manager: str) -> dict[str, Any]:
        """Put back the metadata and spec that `read` once returned, and return the object.

        Labels and annotations that the object has gained are removed. Creates it if it is gone.
        """
        ...

    async def delete(self, kind: str, name: str) -> None:
        """Delete an object. Success if it does not exist."""
        ...


class Members(Protocol):
    """The members of this Captain."""

    def get(self, name: str) -> Member | None:
        """Return a member, also an unreachable or paused one. None without a MemberCluster."""
        ...
