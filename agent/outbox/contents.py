"""What the outbox keeps, as it stands on disk."""

import msgspec

from agent.nodestatus.board import KnownCondition
from agent.nodestatus.tally import EventEntry, LeftOut


class OutboxContents(msgspec.Struct, kw_only=True):
    """boot_id  of the boot that `conditions` are known of"""

    boot_id: str = ""
    conditions: list[KnownCondition] = msgspec.field(default_factory=list)
    events: list[EventEntry] = msgspec.field(default_factory=list)
    left_out: LeftOut = msgspec.field(default_factory=LeftOut)
