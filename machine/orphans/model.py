"""One orphan, as it is remembered."""

from datetime import datetime

import msgspec


class OrphanRecord(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One instance that no Machine claims.

    provider        name of its entry in the providers file
    provider_id     as a Node's `spec.providerID` would be
    machine         name on its tag; `machine_uid` is the UID in its token
    found_at        when it was recorded
    absent_seconds  how long no Node and no agent of it was there without a break, by our own clock;
                    looks that failed and restarts add nothing
    sighting        what was there at the last look, "" for nothing
    held            why it is not deleted, as a sentence
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
