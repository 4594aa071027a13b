"""Timelines: what happened to which node, and when.

The same entries are written by hand in rule tests (YAML), recorded from clusters (JSON lines) and
made by programs. Each entry has exactly one signal.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, ClassVar, Literal

from pydantic import Field, PrivateAttr, StrictBool, ValidationError, model_validator

from kubenode.api.base import Model, refusal
from kubenode.api.problems import problems
from remedy.hostdoctor.parsers import FROM_AGENTS
from simulation.replay.moments import At, instant
from simulation.replay.signals import (
    Alert,
    Answers,
    Boot,
    Delivery,
    Evictions,
    Log,
    NodeSnapshot,
    SimulatedCondition,
    SimulatedEvent,
    SimulatedHostEvent,
    SimulatedTaint,
    System,
)


class Wrong(Exception):
    """A timeline that cannot be read. The message has a line `place: field: problem, remedy` for
    each problem.
    """


class Entry(Model):
    """One thing that happens. `node` is a name, several, or a pattern such as `b*`.

    Signals of the fleet (`alertSource`, `end`, a `delivery` that no agent brings) name no node.
    """

    at: At
    node: str | list[str] = ""
    condition: SimulatedCondition | None = None
    event: SimulatedEvent | None = None
    host_event: SimulatedHostEvent | None = None
    alert: Alert | None = None
    alert_source: Literal["alive", "silent", "heard"] | None = None
    """Signs of life of the source of alerts: always, none any more, or one now."""
    label: dict[str, str | None] | None = None
    annotation: dict[str, str | None] | None = None
    taint: SimulatedTaint | None = None
    cordon: StrictBool | None = None
    boot: Boot | None = None
    system: System | None = None
    lifecycle: Literal["created", "deleted"] | None = None
    look: NodeSnapshot | None = None
    """With `lifecycle: created`: the Node as it is first seen."""
    silent: StrictBool | list[str] | None = None
    """Reporters that write no heartbeats any more: all (and the node's lease), or by condition."""
    heard: StrictBool | list[str] | None = None
    """One heartbeat now, of all conditions or of these."""
    lease: Literal["renewed", "silent"] | None = None
    """The kubelet's Lease: renewed all the time, or not any more."""
    probe: Answers | None = None
    pods: int | None = Field(default=None, ge=0)
    """Pods that can be moved."""
    evictions: Evictions | None = None
    person: Literal["cancel", "approve", "deny"] | None = None
    """A person's word on the open job of the node."""
    log: Log | None = None
    delivery: Delivery | None = None
    end: Literal[True] | None = None
    """Until here was recorded, although nothing happened."""

    of_the_fleet: ClassVar[frozenset[str]] = frozenset({"alert_source", "end"})
    _signal: str = PrivateAttr(default="")

    @model_validator(mode="after")
    def _check_signal(self) -> "Entry":
        given = [name for name in SIGNALS if getattr(self, name) is not None]
        if len(given) != 1:
            known = ", ".join(type(self).model_fields[n].alias or n for n in SIGNALS)
            names = ", ".join(given) or "none"
            raise refusal(f"one signal is needed, here is {names}: write one of {known}")
        (self._signal,) = given
        if self.look is not None and self.lifecycle != "created":
            raise refusal("goes with `lifecycle: created` only: leave it out", "look")
        if self.delivery is not None:
            self._is_of_an_agent(self.delivery.transport)
        elif (self._signal in self.of_the_fleet) == bool(self.node):
            if self.node:
                raise refusal("this signal is of the whole fleet: leave `node` out", "node")
            raise refusal("required and missing: name the node", "node")
        return self

    def _is_of_an_agent(self, transport: str) -> None:
        if self.node and transport not in FROM_AGENTS:
            raise refusal(f"no agent tells of {transport}: leave `node` out", "node")
        if not self.node and transport in FROM_AGENTS:
            raise refusal(f"{transport} is told by an agent: name its node", "node")

    @property
    def signal(self) -> str:
        """Return the name of the field that has the signal."""
        return self._signal

    @property
    def nodes(self) -> Sequence[str]:
        return [self.node] if isinstance(self.node, str) else self.node

    def line(self) -> str:
        """Return the entry as one line of a recording."""
        return self.model_dump_json(by_alias=True, exclude_defaults=True)


SIGNALS = tuple(n for n in Entry.model_fields if n not in ("at", "node", "look"))


def read_lines(lines: Iterable[bytes | str], name: str) -> Iterator[Entry]:
    """Yield the entries of a recording in its order. Raises Wrong.

    name: the name of the recording, for errors.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield Entry.model_validate_json(line)
        except ValidationError as error:
            raise Wrong(_format_problems(error, f"{name}:{number}")) from error


def _format_problems(error: ValidationError, place: str) -> str:
    return "\n".join(f"{place}: {text}" for text in problems(error, Entry))


def in_order(entries: Iterable[Entry], start: datetime) -> list[tuple[datetime, Entry]]:
    """Sort entries by time. Entries of one instant stay in their order."""
    timed = [(instant(entry.at, start), entry) for entry in entries]
    return sorted(timed, key=lambda pair: pair[0])


def entry(**fields: Any) -> Entry:
    """Build an entry: `entry(at="5m", node="a", condition={...})`. Raises ValueError."""
    return Entry.model_validate(fields)
