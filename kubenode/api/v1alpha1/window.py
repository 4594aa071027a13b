"""Time window that recurs every week."""

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
    """Period between two times of day, on given days of the week, in a time zone."""

    days: list[Weekday] = Field(default_factory=lambda: list(Weekday), min_length=1, max_length=7)
    """Days on which the window starts. Defaults to all days."""
    from_: str = Field(alias="from", pattern=CLOCK, max_length=5)
    """Start of the window, as `HH:MM`."""
    to: str = Field(pattern=CLOCK, max_length=5)
    """End of the window, as `HH:MM`. An end at or before the start is on the next day."""
    time_zone: str = Field(default="UTC", min_length=1, max_length=64)
    """IANA name of the time zone, such as `Europe/Berlin`."""

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
