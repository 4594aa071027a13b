"""A window of time that comes again every week."""

from enum import StrEnum
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, field_validator

from kubenode.api.base import Model


class Weekday(StrEnum):
    MON = "Mon"
    TUE = "Tue"
    WED = "Wed"
    THU = "Thu"
    FRI = "Fri"
    SAT = "Sat"
    SUN = "Sun"


CLOCK = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"


class TimeWindow(Model):
    """From one time of day to another on some days of the week, where the time zone says."""

    days: list[Weekday] = Field(default_factory=lambda: list(Weekday), min_length=1, max_length=7)
    from_: str = Field(alias="from", pattern=CLOCK, max_length=5)
    to: str = Field(pattern=CLOCK, max_length=5)
    """An end that is not after the start is on the next day."""
    time_zone: str = Field(default="UTC", min_length=1, max_length=64)
    """IANA name."""

    @field_validator("time_zone")
    @classmethod
    def _known_zone(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise ValueError(
                f"{name!r} is no time zone: write an IANA name like Europe/Berlin"
            ) from error
        return name
