"""Decides when a failed unit may be restarted locally. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from agent.host import Unit
from kubenode.runtime.duration import seconds

PROTECTED = frozenset({"kubenode-agent.service"})
MOST_UNITS = 8


class LocalUnit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of [local.units].

    failed_for: how long the agent must have observed the failure
    most: restarts within `within`, over restarts of the agent and of the host
    """

    failed_for: str = "2m"
    most: int = 2
    within: str = "1h"

    def complaints(self, name: str) -> list[str]:
        """Describe each error of the entry in a sentence."""
        complaints = []
        for field in ("failed_for", "within"):
            given = getattr(self, field)
            try:
                seconds(given)
            except ValueError as error:
                complaints.append(f"local.units.{name}.{field}: {error}")
        if not 1 <= self.most <= 20:
            complaints.append(f"local.units.{name}.most {self.most}: give a number from 1 to 20")
        if not name.endswith(".service") or "/" in name:
            complaints.append(f"local.units.{name}: name a unit such as kubelet.service")
        if name in PROTECTED:
            complaints.append(f"local.units.{name}: the agent does not restart itself; take it out")
        return complaints


class LocalRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table [local] of the settings."""

    units: dict[str, LocalUnit] = msgspec.field(default_factory=dict)

    def complaints(self) -> list[str]:
        complaints = [c for name, unit in self.units.items() for c in unit.complaints(name)]
        if len(self.units) > MOST_UNITS:
            complaints.append(
                f"local.units: {len(self.units)} units, at most {MOST_UNITS} are watched"
            )
        return complaints


@dataclass(frozen=True, slots=True)
class UnitObservation:
    """State of a unit. failed_since: monotonic time; None while the unit is not failed."""

    unit: Unit
    failed_since: float | None
    now: float


def why_not(rule: LocalUnit, observation: UnitObservation, busy: str) -> str:
    """Describe why the unit is left alone; "" if it may be restarted. busy: "" if the agent is
    idle.
    """
    if observation.unit.active != "failed" or observation.failed_since is None:
        return f"{observation.unit.name} is {observation.unit.active}"
    remaining = observation.failed_since + seconds(rule.failed_for) - observation.now
    if remaining > 0:
        return f"failed not long enough, {remaining:.0f} s to go"
    return busy


def spent(rule: LocalUnit, starts: Sequence[datetime], now: datetime) -> bool:
    """Return whether the limit is used up. A start in the future (clock set back) counts."""
    since = now - timedelta(seconds=seconds(rule.within))
    return sum(at > since for at in starts) >= rule.most


def list_recent_starts(
    starts: Mapping[str, Sequence[datetime]], units: Mapping[str, LocalUnit], now: datetime
) -> dict[str, list[datetime]]:
    """Return the starts that still count against a limit."""
    return {
        name: [
            at for at in starts.get(name, ()) if at > now - timedelta(seconds=seconds(rule.within))
        ][-rule.most :]
        for name, rule in units.items()
    }
