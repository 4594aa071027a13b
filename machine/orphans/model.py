"""Record of one orphan."""

from datetime import datetime

import msgspec


class OrphanRecord(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One instance that no Machine claims.

    provider: name of its entry in the providers file.
    provider_id: its ID, in the form of a Node's `spec.providerID`.
    machine: the Machine's name in its tag.
    machine_uid: the Machine's UID in its token.
    found_at: when it was recorded.
    absent_seconds: monotonic seconds for which no Node and no agent of it has been present without
        a
        break. Failed scans and restarts add nothing.
    sighting: what was present at the last scan, "" for nothing.
    held: why it is not deleted, as a sentence.
    """

    provider: str
    provider_id: str = msgspec.field(name="providerID")
    machine: str = ""
    machine_uid: str = msgspec.field(default="", name="machineUID")
    addresses: tuple[str, ...] = ()
    created_at: datetime | None = None
    found_at: datetime | None = None
    absent_seconds: float = 0.0
    sighting: str = ""
    held: str = ""
