"""The annotation by which a job rolls back a component of one Machine. Pure.

It stays as long as the component's set would assign the revision that was rolled back. It has an
effect only while the job is open.
"""

from collections.abc import Mapping

import msgspec

PREFIX = "rollback.kubenode.io/"
"""Prefix of the annotations; the component's family follows."""


class Rollback(msgspec.Struct, frozen=True, rename="camel"):
    """A rollback of one component on one machine.

    job: the RemedyOperationJob that owns the node and whose permit covers the rollback
    permit: its name
    up_to: highest class of change that the permit covers
    from_: revision that is rolled back
    to: revision that the machine gets instead
    """

    job: str
    permit: str
    up_to: str
    from_: str = msgspec.field(name="from")
    to: str

    @property
    def text(self) -> str:
        return msgspec.json.encode(self).decode()


def rollback_in(annotations: Mapping[str, str], family: str) -> Rollback | None:
    """Return the rollback of a component; None if there is none, or it cannot be parsed."""
    text = annotations.get(PREFIX + family)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=Rollback)
    except msgspec.DecodeError:
        return None
