"""Data of the component engine: the stored record and the observation of one component. Pure.

A record is on disk before any act that it describes. It holds everything that an undo needs: what
is applied, what was applied before, and what is being applied, each with the content of its files.
Only root can read records, because they may hold secrets.
"""

from datetime import datetime
from enum import StrEnum

import msgspec

from agent.components.before import Before
from agent.components.drift.fight import FRESH, DriftFights
from kubenode.runtime.components.change import ComponentForm, form_of
from kubenode.runtime.components.render import RenderedFiles
from kubenode.runtime.components.wire import Assigned, ComponentSpec, WireChangeClass

AGENT = "kubenode-agent"
"""Name of the agent's own package."""


class ComponentApplyState(StrEnum):
    """Values of `status.components[].state`; step.EDGES lists the transitions."""

    PENDING = "Pending"
    BLOCKED = "Blocked"
    STAGING = "Staging"
    STAGED = "Staged"
    APPLYING = "Applying"
    VERIFYING = "Verifying"
    HEALTHY = "Healthy"
    UNDOING = "Undoing"
    ROLLED_BACK = "RolledBack"
    FAILED = "Failed"
    UNHEALTHY = "Unhealthy"
    DRIFTED = "Drifted"
    DRIFT_FIGHT = "DriftFight"
    REMOVING = "Removing"
    ABSENT = "Absent"


MOVING = frozenset(
    {ComponentApplyState.APPLYING, ComponentApplyState.UNDOING, ComponentApplyState.REMOVING}
)
"""States of a change in progress: the host has parts of two versions. They end before all else."""


class ComponentMove(StrEnum):
    """One journaled part of applying, undoing or removing. Each is idempotent."""

    NOTE = "note"
    PREPARE = "prepare"
    SOFTWARE = "software"
    APPLY = "apply"
    FILES = "files"
    UNITS = "units"
    CONFIG = "config"
    RUN = "run"
    POST = "post"
    LEAVE = "leave"
    STOP = "stop"
    TAKE_FILES = "takeFiles"
    TAKE_SOFTWARE = "takeSoftware"
    GIVE_BACK = "giveBack"
    REBOOT = "reboot"


PUT = (
    *(
        ComponentMove.NOTE,
        ComponentMove.PREPARE,
        ComponentMove.SOFTWARE,
        ComponentMove.APPLY,
        ComponentMove.FILES,
        ComponentMove.UNITS,
    ),
    *(ComponentMove.CONFIG, ComponentMove.RUN, ComponentMove.POST),
)
PUT_BACK = (
    ComponentMove.NOTE,
    ComponentMove.SOFTWARE,
    ComponentMove.FILES,
    ComponentMove.UNITS,
    ComponentMove.RUN,
)
"""Moves of an undo. Hooks are left out because they lead to the new version."""
TAKE = (
    ComponentMove.LEAVE,
    ComponentMove.STOP,
    ComponentMove.TAKE_FILES,
    ComponentMove.TAKE_SOFTWARE,
    ComponentMove.GIVE_BACK,
)


class StoredComponent(msgspec.Struct, frozen=True):
    """A component as it shall be on this host, with the content of its files.

    component: name of the MachineComponent
    """

    component: str
    config_hash: str
    spec: ComponentSpec
    rendered: RenderedFiles
    desired_state: str

    @property
    def form(self) -> ComponentForm | None:
        return form_of(self.spec, self.rendered, self.desired_state)

    @property
    def is_agent(self) -> bool:
        """Return whether the component is the agent itself."""
        apt = self.spec.source.apt
        return apt is not None and any(package.name == AGENT for package in apt.packages)


class ComponentRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine stores of one component.

    revision, attempt: of the assignment that the record is about
    applied: completely on the host, and healthy when it was applied; None: nothing of the component
    previous: what was applied before `applied`
    target: being applied; None: nothing, or the component is being removed
    stray: a failed target, of which unknown parts are on the host
    at: the current move, in states that have one
    how: disruption class of the current change
    boot_id: boot ID of the host when a reboot became due; another boot ID proves the reboot
    started: invocation of each unit before its restart; another invocation proves the restart
    tries: how many times a process found the moves interrupted and continued them
    fights: recent corrections of drift
    fresh: nothing of the component was on the host before
    before: the host before the agent's first change; None: it was not recorded
    leaving: the component is removed because the Machine is deleted; the host is restored
    needs: class of the change that waits for a permit; during a change: it was interrupted and
        waits for a permit to continue
    """

    name: str
    state: ComponentApplyState = ComponentApplyState.PENDING
    revision: str = ""
    attempt: int = 0
    applied: StoredComponent | None = None
    previous: StoredComponent | None = None
    target: StoredComponent | None = None
    stray: StoredComponent | None = None
    at: ComponentMove | None = None
    how: WireChangeClass = WireChangeClass.NONE
    boot_id: str = ""
    started: dict[str, str] = {}
    tries: int = 0
    fights: DriftFights = FRESH
    fresh: bool = False
    before: Before | None = None
    leaving: bool = False
    staged_at: datetime | None = None
    needs: WireChangeClass | None = None
    reason: str = ""
    message: str = ""

    @property
    def interrupted(self) -> bool:
        """Return whether an unfinished change waits for a permit to continue."""
        return self.needs is not None and self.state in MOVING


class ComponentHealth(StrEnum):
    UNKNOWN = "unknown"
    GOOD = "good"
    BAD = "bad"


class Off(StrEnum):
    """What to do about drift.

    START: start a unit that has stopped
    CORRECT: correct something that disturbs nothing
    NEEDS: correct something that needs a permit
    WORN: do nothing, because a unit was started as often as allowed
    FIGHT: do nothing, because a path was corrected as often as allowed
    """

    NONE = "none"
    START = "start"
    CORRECT = "correct"
    NEEDS = "needs"
    WORN = "worn"
    FIGHT = "fight"


class MoveResult(msgspec.Struct, frozen=True):
    """Result of an act.

    text: the error; "" if there was none
    final: a retry is useless
    started: invocation of each unit before the restart that it needs
    before: the host before the change; None: it was not recorded
    stays: what could not be restored
    """

    text: str = ""
    final: bool = False
    started: dict[str, str] = {}
    before: Before | None = None
    stays: str = ""


class ComponentObservation(msgspec.Struct, frozen=True, kw_only=True):
    """Input of a step: one component at one moment.

    boot_id: boot ID of the host; "" if unknown
    known: whether the Machine was read; without it no change begins
    assigned: the Machine's assignment; None: there is none
    target: the assigned component, rendered for this host; None: unknown, see `problem`
    problem: (reason, message) why the target cannot be applied; ("", "") for none
    observe: the Machine allows no changes
    leaving: the Machine is being deleted
    there: whether anything of the component is on the host
    same: whether the host matches `target`
    how: disruption class of the change to the target, or, at rest, of correcting the drift
    permitted: whether that change is permitted; during a change: whether it may continue
    waits: why the component must wait for others; "" if it need not
    done: result of the last act; None: there is none
    overdue: not healthy within the deadline
    off, differs: what to do about drift, and where the host differs
    """

    now: datetime
    boot_id: str
    known: bool = True
    assigned: Assigned | None = None
    target: StoredComponent | None = None
    problem: tuple[str, str] = ("", "")
    observe: bool = False
    leaving: bool = False
    there: bool = False
    same: bool = False
    how: WireChangeClass = WireChangeClass.NONE
    permitted: bool = False
    waits: str = ""
    done: MoveResult | None = None
    health: ComponentHealth = ComponentHealth.UNKNOWN
    overdue: bool = False
    off: Off = Off.NONE
    differs: str = ""
