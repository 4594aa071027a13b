"""Table [metadata] of the agent's settings: nothing is read unless it names the cloud.

[metadata]
cloud = "azure"
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

ADDRESS = "http://169.254.169.254"
"""Address of the metadata service, the same in all three clouds."""


class Metadata(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the metadata detector.

    cloud: cloud of this machine; "": nothing is read
    every_seconds: interval for urgent documents; 0: as each cloud recommends
    """

    cloud: Literal["", "aws", "azure", "gcp"] = ""
    every_seconds: Annotated[float, Meta(ge=0, le=300)] = 0.0
    address: str = ADDRESS
