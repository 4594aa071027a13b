"""What the engine remembers of one component, and what it sees before each step; pure.

A record is on disk before anything is done that it speaks of. It holds all that is needed to go
back: what is applied, what was applied before, and what is in the middle of being applied, each
with the content of its files. Records are readable by root alone, as secrets may be among them.
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
"""Our own package."""


class ComponentApplyState(StrEnum):
    """As `status.components[].state`; see EDGES in step."""

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
"""In the middle: the host is neither wholly old nor wholly new. They end before anything else."""


class ComponentMove(StrEnum):
    """One journaled part of applying, undoing or removing. Each may be repeated."""

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
"""Without hooks, as they lead to the new version."""
TAKE = (
    ComponentMove.LEAVE,
    ComponentMove.STOP,
    ComponentMove.TAKE_FILES,
    ComponentMove.TAKE_SOFTWARE,
    ComponentMove.GIVE_BACK,
)


class StoredComponent(msgspec.Struct, frozen=True):
    """A component as it shall be on this host, with all that its files hold.

    component  name of the MachineComponent
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
        """Whether it is the program that does all this."""
        apt = self.spec.source.apt
        return apt is not None and any(package.name == AGENT for package in apt.packages)


class ComponentRecord(msgspec.Struct, frozen=True, kw_only=True):
    """revision, attempt  of the spec that the rest speaks of
    applied   wholly on the host, and well when it was applied; None: nothing of ours
    previous  what was applied before that
    target    in the middle of being applied; None: nothing, or it is being removed
    stray     a target that failed: what of it is on the host nobody knows
    at        the move that is under way, in the states that have one
    how       class of the change under way
    boot_id   of the host when a reboot became due; a different one proves it
    started   by unit its invocation before it was to be restarted: another one proves the restart
    tries     how often the moves were taken up by a process that found them in the middle
    fights    how often what drifted was put right
    fresh     nothing of it was on the host before
    before    what was there before anything of ours; None: nobody looked
    leaving   it is removed because the host is let go, which is to be as it was before
    needs     class of the change that waits for a permit; in the middle of a change: it was
              interrupted, and does not go on before there is one
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
        """Whether a change stands still in its middle until there is a permit for the rest."""
        return self.needs is not None and self.state in MOVING


class ComponentHealth(StrEnum):
    UNKNOWN = "unknown"
    GOOD = "good"
    BAD = "bad"


class Off(StrEnum):
    """What is to be done about how the host differs from what is applied.

    START     a unit that shall run has stopped
    CORRECT   something that disturbs nobody is put right
    NEEDS     putting it right needs a permit
    WORN      a unit was started as often as it may be
    FIGHT     a path was put right as often as it may be
    """

    NONE = "none"
    START = "start"
    CORRECT = "correct"
    NEEDS = "needs"
    WORN = "worn"
    FIGHT = "fight"


class MoveResult(msgspec.Struct, frozen=True):
    """How an act ended.

    text     what went wrong, "" if nothing did
    final    another try is no use
    started  by unit that is to be restarted its invocation until then
    before   what was on the host until now; None: it was not looked at
    stays    what could not be made as it was before
    """

    text: str = ""
    final: bool = False
    started: dict[str, str] = {}
    before: Before | None = None
    stays: str = ""


class ComponentObservation(msgspec.Struct, frozen=True, kw_only=True):
    """What is true at one moment, of one component.

    boot_id   "" is unknown
    known     whether the Machine was read: without it nothing new is begun
    assigned  as the Machine has it; None: not at all
    target    what it comes to on this host; None: not known (yet, or see `problem`)
    problem   (reason, message) why it cannot be; ("", "") for none
    observe   the Machine says to report only
    leaving   the Machine is being deleted
    there     whether anything of it is on the host
    same      whether the host is as `target` says
    how       class of the change: to the target, or, at rest, of putting right what differs
    permitted whether that class may be done now; in the middle of a change: whether the rest may
    waits     why it is not its turn, "" when it is
    done      of the act that was asked for last
    overdue   not healthy within its deadline
    off, differs  how the host differs from what is applied, and where
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
