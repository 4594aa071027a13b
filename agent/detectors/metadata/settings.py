"""Table [metadata] of the agent's settings: nothing is read unless it names the cloud.

[metadata]
cloud = "azure"
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

ADDRESS = "http://169.254.169.254"
"""Of the metadata service, the same in all three clouds."""


class Metadata(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """cloud          whose machine this is; "" reads nothing
    every_seconds  how often what may leave seconds is looked at; 0 is as each cloud advises
    """

    cloud: Literal["", "aws", "azure", "gcp"] = ""
    every_seconds: Annotated[float, Meta(ge=0, le=300)] = 0.0
    address: str = ADDRESS
