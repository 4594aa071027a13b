"""Settings of the log detector: [detectors.logs] of the agent's settings."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class LogSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the log detector.

    enabled: False: only logs that npd_configs name are read
    kernel: source of kernel lines: /dev/kmsg, the journal, or `auto`: the journal if /dev/kmsg
        cannot be read
    journal: False: the journal is not read, as on a host without systemd
    packs: further patterns of the site: TOML files in the format of the packs in this package
    lookback_seconds: age up to which a line is reported as an Event on the first start
    kmsg: the kernel's device
    """

    enabled: bool = True
    kernel: Literal["auto", "kmsg", "journal"] = "auto"
    journal: bool = True
    packs: tuple[str, ...] = ()
    lookback_seconds: Annotated[float, Meta(ge=0, le=86400)] = 300.0
    kmsg: str = "/dev/kmsg"
