"""RemedyOperationJob and HostProbe as the agent reads them: the few fields it needs, by msgspec.

The models of kubenode.api are pydantic and say what may be written; an agent only reads, so a
field that a newer operator adds is skipped here, and one that is null or missing has its default.
"""

from datetime import UTC, datetime

import msgspec

REBOOT, COLLECT, APPROVE = "Reboot", "CollectDiagnostics", "ApproveEvent"
BEHIND = frozenset({REBOOT, COLLECT, APPROVE})
EVENT = "event"
"""Key of a step's output: the scheduled event that ApproveEvent approves."""
FIRST_CHECK = 16
"""`index` of the first check of `verify.checks` in a step's record; a rung has at most 16 steps."""


class RemedyWire(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """Base struct: camelCase names, unknown fields are skipped."""


class WireRemedyMetadata(RemedyWire, frozen=True):
    name: str = ""
    namespace: str | None = None
    uid: str = ""
    resource_version: str = ""


class WireAgentStep(RemedyWire, frozen=True):
    """Action and parameters that a step requests from the agent."""

    action: str
    unit: str | None = None
    check: str | None = None
    script: str | None = None
    params: dict[str, str] | None = None
    timeout: str | None = None
    """Go duration such as `90s`; None: the API's default."""


class WireRebootStep(RemedyWire, frozen=True):
    timeout: str | None = None


class WireCollectStep(RemedyWire, frozen=True):
    bundle: list[str] | None = None
    timeout: str | None = None


class WireApproveEventStep(RemedyWire, frozen=True):
    timeout: str | None = None


class LadderStep(RemedyWire, frozen=True):
    agent: WireAgentStep | None = None
    reboot: WireRebootStep | None = None
    collect: WireCollectStep | None = None
    approve_event: WireApproveEventStep | None = None

    @property
    def action(self) -> WireAgentStep | None:
        """Return the action of an agent step.

        Reboot, CollectDiagnostics and ApproveEvent are requested only by their own kinds of step.
        """
        if self.reboot is not None:
            return WireAgentStep(REBOOT, timeout=self.reboot.timeout or "10m")
        if self.collect is not None:
            bundle = {"bundle": ",".join(self.collect.bundle or ())}
            return WireAgentStep(COLLECT, params=bundle, timeout=self.collect.timeout)
        if self.approve_event is not None:
            return WireAgentStep(APPROVE, timeout=self.approve_event.timeout)
        return self.agent if self.agent is None or self.agent.action not in BEHIND else None


class WireVerify(RemedyWire, frozen=True):
    checks: list[LadderStep] | None = None


class WireRung(RemedyWire, frozen=True):
    steps: list[LadderStep] | None = None
    verify: WireVerify | None = None


class Spec(RemedyWire, frozen=True):
    node_name: str = ""
    agent: str = ""
    ladder: list[WireRung] | None = None
    cancel: bool | None = None


class WireStepStatus(RemedyWire, frozen=True):
    """A step as the operator wrote it: the intent that the agent acts on."""

    rung: int
    index: int
    by: str | None = None
    request_id: str | None = msgspec.field(default=None, name="requestID")
    state: str | None = None
    expires_at: datetime | None = None
    boot_id: str | None = msgspec.field(default=None, name="bootID")
    output: dict[str, str] | None = None


class WireAnswer(RemedyWire, frozen=True, omit_defaults=True):
    """The agent's answer to one request, in `status.agent.requests`."""

    state: str
    boot_id: str = msgspec.field(default="", name="bootID")
    started_at: str | None = None
    finished_at: str | None = None
    code: int | None = None
    output: str = ""


class Answers(RemedyWire, frozen=True):
    requests: dict[str, WireAnswer] | None = None


class JobPermit(RemedyWire, frozen=True):
    """The Permit that the job holds."""

    name: str = ""


class WireJobStatus(RemedyWire, frozen=True):
    phase: str | None = None
    permit: JobPermit | None = None
    steps: list[WireStepStatus] | None = None
    agent: Answers | None = None


class WireJob(RemedyWire, frozen=True):
    metadata: WireRemedyMetadata
    spec: Spec = Spec()
    status: WireJobStatus | None = None

    def action_of(self, step: WireStepStatus) -> WireAgentStep | None:
        """Return the action in the ladder that `step` refers to; None if it is no agent step."""
        ladder = self.spec.ladder or []
        if not 0 <= step.rung < len(ladder):
            return None
        rung, place = ladder[step.rung], step.index
        steps = rung.steps or []
        if place >= FIRST_CHECK:
            place -= FIRST_CHECK
            steps = (rung.verify.checks if rung.verify is not None else None) or []
        action = steps[place].action if 0 <= place < len(steps) else None
        if action is not None and action.action == APPROVE:
            # The operator finds the event at run time: the step's record names it, not the ladder.
            event = (step.output or {}).get(EVENT, "")
            return msgspec.structs.replace(action, params={EVENT: event})
        return action

    def answer(self, request_id: str) -> WireAnswer | None:
        """Return the agent's answer to `request_id` as the API server has it."""
        if self.status is None or self.status.agent is None:
            return None
        return (self.status.agent.requests or {}).get(request_id)


class ProbeSpec(RemedyWire, frozen=True):
    name: str
    expires_at: datetime
    agent: str = ""
    args: dict[str, str] | None = None


class ProbeStatus(RemedyWire, frozen=True):
    answered_at: datetime | None = None


class Probe(RemedyWire, frozen=True):
    """A HostProbe."""

    metadata: WireRemedyMetadata
    spec: ProbeSpec
    status: ProbeStatus | None = None


class WireAssignedJob(RemedyWire, frozen=True):
    name: str
    request: str = ""


class AssignmentSpec(RemedyWire, frozen=True):
    jobs: list[WireAssignedJob] | None = None
    probes: list[str] | None = None


class Assignment(RemedyWire, frozen=True):
    """AgentAssignment: the objects that this agent has to read."""

    metadata: WireRemedyMetadata
    spec: AssignmentSpec = AssignmentSpec()

    def items(self, jobs: str, probes: str) -> dict[tuple[str, str], str]:
        """Return the objects to read by (plural, name), each with a token that changes with its
        request.

        jobs, probes: plurals of both kinds
        """
        entries = {(jobs, job.name): job.request for job in self.spec.jobs or ()}
        return entries | {(probes, name): "" for name in self.spec.probes or ()}


decode_assignment = msgspec.json.Decoder(Assignment).decode
decode_job = msgspec.json.Decoder(WireJob).decode
decode_probe = msgspec.json.Decoder(Probe).decode


def format_time(at: datetime) -> str:
    """Format a time as all kinds of KubeNode do: RFC 3339 in UTC with milliseconds."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
