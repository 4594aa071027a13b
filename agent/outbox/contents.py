"""What the outbox keeps, as it stands on disk."""

import msgspec

from agent.publishing.board import Known
from agent.publishing.tally import Entry, LeftOut


class Contents(msgspec.Struct, kw_only=True):
    """boot_id  of the boot that `conditions` are known of"""

    boot_id: str = ""
    conditions: list[Known] = msgspec.field(default_factory=list)
    events: list[Entry] = msgspec.field(default_factory=list)
    left_out: LeftOut = msgspec.field(default_factory=LeftOut)
