"""Contents of the outbox file."""

import msgspec

from agent.nodestatus.board import KnownCondition
from agent.nodestatus.tally import DroppedEvents, EventEntry


class OutboxContents(msgspec.Struct, kw_only=True):
    """Unpublished reports. boot_id: of the boot that `conditions` were observed in."""

    boot_id: str = ""
    conditions: list[KnownCondition] = msgspec.field(default_factory=list)
    events: list[EventEntry] = msgspec.field(default_factory=list)
    left_out: DroppedEvents = msgspec.field(default_factory=DroppedEvents)
