"""A repair takes a component of one machine back: how its job says so at the Machine. Pure.

The annotation stays as long as its set would give the machine the revision that it was taken back
from. Only while the job is open does anything begin because of it.
"""

from collections.abc import Mapping

import msgspec

PREFIX = "rollback.kubenode.io/"
"""Of annotations of a Machine; the component's family follows."""


class Rollback(msgspec.Struct, frozen=True, rename="camel"):
    """job      the RemedyOperationJob that holds the node, and under whose permit it is done
    permit   its name
    up_to    the class of change that the permit is good for
    from_    the revision that the machine is taken back from
    to       the one it gets instead
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
    """What stands there for the component; None: nothing, or nothing that can be read."""
    text = annotations.get(PREFIX + family)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=Rollback)
    except msgspec.DecodeError:
        return None
