"""Instances of Compute Engine, and the managed instance groups that they belong to.

Every request carries a UUID derived from the caller's request ID. Compute Engine remembers it for
at least an hour, so every request may be repeated. A managed group treats a member that somebody
else stopped as failed and recreates it, unless the group's policy says otherwise.
"""

import re
import uuid
from dataclasses import dataclass
from typing import Any

import google.auth
from google.api_core.client_options import ClientOptions
from google.auth.credentials import Credentials
from google.cloud import compute_v1

from kubenode.providers import ids
from kubenode.providers.errors import Busy, ProviderError, Refused, Unsupported
from kubenode.providers.gcp.errors import NAME, explain
from kubenode.providers.port import Can, Power, PowerState, ProviderMachine
from kubenode.providers.sameness import differs
from kubenode.providers.settings import GcpSettings, StopInGroup
from kubenode.providers.threads import Once, still_wanted
from kubenode.runtime.clock import Clock

STATES = {
    "DEPROVISIONING": PowerState.STOPPING,
    "PENDING": PowerState.STARTING,
    "PENDING_STOP": PowerState.STOPPING,
    "PROVISIONING": PowerState.STARTING,
    "RUNNING": PowerState.ON,
    "STAGING": PowerState.STARTING,
    "STOPPED": PowerState.OFF,
    "STOPPING": PowerState.STOPPING,
    "SUSPENDING": PowerState.UNKNOWN,
    "TERMINATED": PowerState.OFF,
}
"""Power state by Status of an instance. Missing ones are UNKNOWN: SUSPENDED, as a resumed instance
gets its memory back, and REPAIRING, which may be anything.
"""
NUMBER = "container.googleapis.com/instance_id"
"""Annotation of a Node in GKE: the number of its instance, which tells namesakes apart."""
UPCOMING = "upcoming-maintenance"
"""ID of an instance's upcoming maintenance. There is one at a time, without an ID of its own."""
SCOPES = ("https://www.googleapis.com/auth/compute",)
_NAMESPACE = uuid.UUID("6f0f8f3a-6f9e-5c53-9c8e-0d8f2c1f7b11")
_CREATOR = re.compile(
    r"projects/[^/]+/(zones|regions)/([a-z0-9-]+)/instanceGroupManagers/([a-z0-9-]+)"
)


@dataclass(frozen=True, slots=True)
class ManagedGroup:
    """A managed instance group. It is zonal or regional: `zone` or `region` is ""."""

    name: str
    zone: str = ""
    region: str = ""


@dataclass(frozen=True, slots=True)
class GcpClients:
    instances: compute_v1.InstancesClient
    zonal: compute_v1.InstanceGroupManagersClient
    regional: compute_v1.RegionInstanceGroupManagersClient


class Gcp:
    """Provider for the machines of one project.

    `credentials`: the default credentials of google-auth if None.
    """

    name = NAME
    can = Can(off=True, reset=True, repeatable=True, replace=True, renews=True, approve=True)

    def __init__(
        self, settings: GcpSettings, clock: Clock, credentials: Credentials | None = None
    ) -> None:
        self._settings = settings
        self._clock = clock
        # No retries: by default the SDK repeats a request for ten minutes.
        self._how: Any = {"retry": None, "timeout": settings.read_timeout.total_seconds()}
        self._clients = Once(lambda: _clients(settings, credentials))

    def owns(self, machine: ProviderMachine) -> bool:
        try:
            return ids.gce(machine.provider_id).project == self._settings.project
        except ids.BadID:
            return False

    def power(self, machine: ProviderMachine) -> Power:
        instance = self._instance(machine)
        if other := _namesake(machine, instance):
            return Power(PowerState.UNKNOWN, other, self._clock.now())
        return Power(_state(instance), instance.status, self._clock.now())

    def off(self, machine: ProviderMachine, request: str) -> None:
        instance = self._checked(machine)
        if _state(instance).dark:
            return
        self._group_leaves_alone(instance)
        api_request = compute_v1.StopInstanceRequest(
            **self._named(machine),
            request_id=_unique(request, "off"),
            no_graceful_shutdown=True,
            discard_local_ssd=self._settings.discard_local_ssd,
        )
        still_wanted(NAME)
        self._clients.get().instances.stop_unary(api_request, **self._how)

    def on(self, machine: ProviderMachine, request: str) -> None:
        instance = self._checked(machine)
        match _state(instance):
            case PowerState.ON | PowerState.STARTING:
                return
            case PowerState.OFF:
                api_request = compute_v1.StartInstanceRequest(
                    **self._named(machine), request_id=_unique(request, "on")
                )
                still_wanted(NAME)
                self._clients.get().instances.start_unary(api_request, **self._how)
            case PowerState.STOPPING:
                raise Busy(NAME, f"the instance is {instance.status}")
            case _:
                raise Refused(NAME, f"the instance is {instance.status}: it cannot be started")

    def reset(self, machine: ProviderMachine, request: str) -> None:
        instance = self._checked(machine)
        if _state(instance).dark:
            raise Refused(NAME, f"the instance is off ({instance.status}): switch it on")
        api_request = compute_v1.ResetInstanceRequest(
            **self._named(machine), request_id=_unique(request, "reset")
        )
        still_wanted(NAME)
        self._clients.get().instances.reset_unary(api_request, **self._how)

    def replace(self, machine: ProviderMachine, request: str) -> None:
        instance = self._checked(machine)
        group = _group(instance)
        if group is None:
            raise Refused(NAME, "the instance is in no managed group: none would follow it")
        wanted = ids.gce(machine.provider_id)
        names, request_id = (
            [f"zones/{wanted.zone}/instances/{wanted.name}"],
            _unique(request, "new"),
        )
        still_wanted(NAME)
        if group.zone:
            self._clients.get().zonal.recreate_instances_unary(
                compute_v1.RecreateInstancesInstanceGroupManagerRequest(
                    project=wanted.project,
                    zone=group.zone,
                    instance_group_manager=group.name,
                    request_id=request_id,
                    instance_group_managers_recreate_instances_request_resource=(
                        compute_v1.InstanceGroupManagersRecreateInstancesRequest(instances=names)
                    ),
                ),
                **self._how,
            )
        else:
            self._clients.get().regional.recreate_instances_unary(
                compute_v1.RecreateInstancesRegionInstanceGroupManagerRequest(
                    project=wanted.project,
                    region=group.region,
                    instance_group_manager=group.name,
                    request_id=request_id,
                    region_instance_group_managers_recreate_request_resource=(
                        compute_v1.RegionInstanceGroupManagersRecreateRequest(instances=names)
                    ),
                ),
                **self._how,
            )

    def approve(self, machine: ProviderMachine, event: str) -> None:
        """Start the upcoming maintenance now instead of in its window."""
        if event != UPCOMING:
            raise Unsupported(NAME, f"event {event} waits for nobody: Compute Engine just does it")
        maintenance = self._checked(machine).resource_status.upcoming_maintenance
        match maintenance.maintenance_status:
            case "ONGOING":
                return
            case "PENDING" if maintenance.can_reschedule:
                began = f"{machine.provider_id}/{maintenance.window_start_time}"
                api_request = compute_v1.PerformMaintenanceInstanceRequest(
                    **self._named(machine), request_id=_unique(began, "maintenance")
                )
                still_wanted(NAME)
                self._clients.get().instances.perform_maintenance_unary(api_request, **self._how)
            case "PENDING":
                raise Refused(NAME, "this maintenance cannot be started early: it keeps its window")
            case _:
                raise Refused(NAME, "the instance has no upcoming maintenance")

    def explain(self, error: Exception) -> ProviderError | None:
        return explain(error)

    def close(self) -> None:
        if (clients := self._clients.made) is not None:
            for client in (clients.instances, clients.zonal, clients.regional):
                client.transport.close()  # type: ignore[no-untyped-call]

    def _named(self, machine: ProviderMachine) -> dict[str, str]:
        wanted = ids.gce(machine.provider_id)
        return {"project": wanted.project, "zone": wanted.zone, "instance": wanted.name}

    def _instance(self, machine: ProviderMachine) -> compute_v1.Instance:
        api_request = compute_v1.GetInstanceRequest(**self._named(machine))
        instance = self._clients.get().instances.get(api_request, **self._how)
        if instance.name != api_request.instance:
            raise Refused(
                NAME, f"asked for {api_request.instance}, Google answers {instance.name!r}"
            )
        return instance

    def _checked(self, machine: ProviderMachine) -> compute_v1.Instance:
        """Return the instance, proved to be the Node's. Raises Refused on a mismatch."""
        instance = self._instance(machine)
        wrong = differs(machine.node, (instance.name, instance.hostname))
        if wrong := wrong or _namesake(machine, instance):
            raise Refused(NAME, wrong)
        return instance

    def _group_leaves_alone(self, instance: compute_v1.Instance) -> None:
        """Raise Refused if a group would recreate the instance once it is stopped."""
        group = _group(instance)
        if group is None or self._settings.stop_in_group is StopInGroup.ALLOW:
            return
        project, clients = self._settings.project, self._clients.get()
        if group.zone:
            manager = clients.zonal.get(
                project=project,
                zone=group.zone,
                instance_group_manager=group.name,
                **self._how,
            )
        else:
            manager = clients.regional.get(
                project=project,
                region=group.region,
                instance_group_manager=group.name,
                **self._how,
            )
        if manager.instance_lifecycle_policy.default_action_on_failure == "DO_NOTHING":
            return
        raise Refused(
            NAME,
            f"instance group {group.name} would make the instance anew while it is stopped: use"
            " reset or replace, set the group's default action on failure to DO_NOTHING, or set"
            " stopInGroup: Allow",
        )


def _state(instance: compute_v1.Instance) -> PowerState:
    return STATES.get(instance.status, PowerState.UNKNOWN)


def _namesake(machine: ProviderMachine, instance: compute_v1.Instance) -> str:
    """Return a text if the instance is another one with the same name as the Node's, else ""."""
    number = machine.annotations.get(NUMBER, "")
    if not number or number == str(instance.id):
        return ""
    return f"instance {instance.id} bears the name now, and the Node was made by {number}"


def _group(instance: compute_v1.Instance) -> ManagedGroup | None:
    created_by = (item.value for item in instance.metadata.items if item.key == "created-by")
    match = _CREATOR.fullmatch(next(created_by, ""))
    if match is None:
        return None
    kind, place, name = match.groups()
    return ManagedGroup(name, zone=place) if kind == "zones" else ManagedGroup(name, region=place)


def _unique(request: str, what: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, f"{what}/{request}"))


def _clients(settings: GcpSettings, given: Credentials | None) -> GcpClients:
    credentials = given or google.auth.default(scopes=SCOPES)[0]
    options = ClientOptions(api_endpoint=settings.endpoint or None)
    return GcpClients(
        compute_v1.InstancesClient(credentials=credentials, client_options=options),
        compute_v1.InstanceGroupManagersClient(credentials=credentials, client_options=options),
        compute_v1.RegionInstanceGroupManagersClient(
            credentials=credentials, client_options=options
        ),
    )
