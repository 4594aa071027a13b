"""What others do in a FakeWorld: clouds with planned events, receivers, other remediators."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kubenode.api.v1alpha1.hostevent import HostEventClass, HostEventPhase, HostEventSource
from remedy.handover.observation import Handed, HandoverObservation
from remedy.job.created_objects import HandoverAct
from remedy.job.model import Job, JobActResult, JobObservation, NodeObservation
from remedy.job.steps.events import EventAct, next_to_approve
from remedy.plannedevents.observation import EventObservation
from remedy.power.observation import RequestOutcome

PATH = "/apis/example.com/v1/namespaces/remedy/repairs/n1"
Write = Callable[[str, Callable[[], None]], None]


def an_event(
    name: str = "reboot-1", phase: str | None = "Scheduled", **changes: object
) -> EventObservation:
    event = EventObservation(
        name,
        phase=HostEventPhase(phase) if phase is not None else None,
        class_=HostEventClass.REBOOT,
        source=HostEventSource.AZURE,
        external_id=f"ext-{name}",
    )
    return replace(event, **changes)  # type: ignore[arg-type]


@dataclass
class FakeOutside:
    """planned   the events of the job, as the cloud has them
    says          what a provider or receiver answers to each question to come; then it takes all
    begins        whether an event that was approved is under way at once
    object_state  how the object stands once it is made
    """

    planned: tuple[EventObservation, ...] = ()
    says: list[tuple[RequestOutcome, str]] = field(default_factory=list)
    begins: bool = True
    approved: list[str] = field(default_factory=list)
    posted: list[str] = field(default_factory=list)
    object_of: str = ""
    object_state: Handed = Handed.GOING
    made: int = 0
    keep: bool = False

    def phase(self, phase: str | None, name: str = "") -> None:
        """All events, or the one of that name, are in this phase now."""
        new = HostEventPhase(phase) if phase is not None else None
        self.planned = tuple(
            replace(e, phase=new) if name in ("", e.name) else e for e in self.planned
        )

    async def observe(self, job: Job, node: NodeObservation | None) -> HandoverObservation:
        if not self.object_of:
            return HandoverObservation(Handed.ABSENT, PATH, keep=self.keep)
        state = self.object_state if self.object_of == job.uid else Handed.FOREIGN
        return HandoverObservation(state, PATH, "said so", keep=self.keep)

    def _answer(self) -> tuple[RequestOutcome, str]:
        return self.says.pop(0) if self.says else (RequestOutcome.TAKEN, "")

    def approve(self, job: Job, seen: JobObservation, write: Write) -> JobActResult:
        event = next_to_approve(job, seen.events)
        assert event is not None and job.record is not None
        assert job.record.output.get(event.name) == "Asked", "no intent written"
        outcome, error = self._answer()

        def apply() -> None:
            if outcome in (RequestOutcome.TAKEN, RequestOutcome.UNCLEAR):
                assert event.repeatable or event.external_id not in self.approved, "approved twice"
                self.approved.append(event.external_id)
                if self.begins:
                    self.phase("Active", event.name)

        write("approve", apply)
        return JobActResult(EventAct.APPROVE_EVENT, outcome=outcome, error=error)

    def start_handover(self, job: Job, write: Write) -> JobActResult:
        outcome, error = self._answer()
        record, step = job.record, job.step
        assert record is not None and step is not None

        def apply() -> None:
            if outcome not in (RequestOutcome.TAKEN, RequestOutcome.UNCLEAR):
                return
            if step.webhook is not None:
                self.posted.append(f"{job.uid}.{record.rung}.{record.index}.{record.attempts}")
            elif not self.object_of:
                assert record.output.get("object") == PATH, "an object that nobody would take back"
                self.object_of, self.made = job.uid, self.made + 1

        write("hand over", apply)
        return JobActResult(HandoverAct.START_HANDOVER, outcome=outcome, error=error)

    def take_back(self, job: Job, write: Write) -> JobActResult:
        def apply() -> None:
            if self.object_of == job.uid:
                self.object_of = ""

        write("take back", apply)
        return JobActResult(HandoverAct.TAKE_BACK)
