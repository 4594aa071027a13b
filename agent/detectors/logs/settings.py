"""Settings of the log detector: [detectors.logs] of the agent's settings."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class LogSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    enabled           False: no log is read but those that npd_configs name
    kernel            where the kernel's lines are read: /dev/kmsg, the journal, or `auto`: the
                      journal where /dev/kmsg cannot be read
    journal           False: the journal is not read, as on a host without systemd
    packs             more patterns of the site's own: TOML files in the form of our packs
    lookback_seconds  how old a line may be that is told as an Event when the agent is new here
    kmsg              the kernel's device
    """

    enabled: bool = True
    kernel: Literal["auto", "kmsg", "journal"] = "auto"
    journal: bool = True
    packs: tuple[str, ...] = ()
    lookback_seconds: Annotated[float, Meta(ge=0, le=86400)] = 300.0
    kmsg: str = "/dev/kmsg"
