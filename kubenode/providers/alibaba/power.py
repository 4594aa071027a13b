"""ECS instances of Alibaba Cloud, and the scaling groups (ESS) that they belong to.

ECS has no client token for stop, start and reboot. `off` and `on` read the state first and may be
repeated; a reboot is sent once. A scaling group treats a stopped instance as unhealthy and removes
it, so `off` of a member is refused unless the group would leave the stopped instance alone or the
settings allow it.
"""

import json
import logging
import uuid
from dataclasses import dataclass
from typing import Any

from alibabacloud_credentials.client import Client as Credentials
from alibabacloud_ecs20140526.client import Client as EcsClient
from alibabacloud_ecs20140526.models import (
    AcceptInquiredSystemEventRequest,
    DescribeInstanceHistoryEventsRequest,
    DescribeInstancesRequest,
    RebootInstanceRequest,
    StartInstanceRequest,
    StopInstanceRequest,
)
from alibabacloud_ess20220222.client import Client as EssClient
from alibabacloud_ess20220222.models import (
    DescribeScalingGroupsRequest,
    DescribeScalingInstancesRequest,
    RemoveInstancesRequest,
)
from alibabacloud_tea_openapi.exceptions import AlibabaCloudException
from alibabacloud_tea_openapi.models import Config
from darabonba.policy.retry import RetryOptions

from kubenode.providers import ids
from kubenode.providers.alibaba.errors import NAME, explain
from kubenode.providers.errors import Busy, NoSuchMachine, ProviderError, Refused
from kubenode.providers.port import Can, Power, PowerState, ProviderMachine
from kubenode.providers.sameness import differs_on_ecs
from kubenode.providers.settings import AlibabaSettings, StopInGroup
from kubenode.providers.threads import Once, still_wanted
from kubenode.runtime.clock import Clock

# The SDK's core writes to standard error by a handler and level of its own.
_chatter = logging.getLogger("darabonba-core")
_chatter.handlers.clear()
_chatter.setLevel(logging.WARNING)

STATES = {
    "Pending": PowerState.STARTING,
    "Running": PowerState.ON,
    "Starting": PowerState.STARTING,
    "Stopped": PowerState.OFF,
    "Stopping": PowerState.STOPPING,
}
"""Power state by the Status of an instance. A released instance is not found."""
LEAVING = frozenset({"Removing", "RemovingWait", "Detaching"})
"""Lifecycle states of an instance that its scaling group is removing."""
ALLOWED = "DryRunOperation"
"""Error code of a dry run whose request would have been carried out."""
WAITS_FOR_US = "Inquiring"
IN_PROGRESS = ("Scheduled", "Executing", "Executed")
FINISHED = ("Avoided", "Canceled", "Failed", "Rejected")
"""Cycle statuses of an event that has ended. The two names above have those of open events."""
_NAMESPACE = uuid.UUID("0b3a4b8e-58ab-5a40-9c55-9a7d9f0d6b1e")


@dataclass(frozen=True, slots=True)
class AlibabaClients:
    ecs: Any
    ess: Any


class Alibaba:
    """Provider for one region of one account.

    `credentials`: the default credential chain of the SDK if None.
    """

    name = NAME
    can = Can(off=True, reset=True, replace=True, approve=True)

    def __init__(
        self, settings: AlibabaSettings, clock: Clock, credentials: Credentials | None = None
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._clients = Once(lambda: _clients(settings, credentials))

    def owns(self, machine: ProviderMachine) -> bool:
        try:
            return ids.ecs(machine.provider_id).region == self._settings.region
        except ids.BadID:
            return False

    def power(self, machine: ProviderMachine) -> Power:
        raw = str(self._instance(machine).status)
        return Power(STATES.get(raw, PowerState.UNKNOWN), raw, self._clock.now())

    def off(self, machine: ProviderMachine, request: str) -> None:
        instance = self._checked(machine)
        if instance.status == "Stopped":
            return
        self._group_leaves_alone(instance.instance_id)
        # KeepCharging keeps the processors reserved: released ones may be out of stock later.
        api_request = StopInstanceRequest(
            instance_id=instance.instance_id, force_stop=True, stopped_mode="KeepCharging"
        )
        still_wanted(NAME)
        self._clients.get().ecs.stop_instance(api_request)

    def on(self, machine: ProviderMachine, request: str) -> None:
        instance = self._checked(machine)
        match STATES.get(instance.status):
            case PowerState.ON | PowerState.STARTING:
                return
            case PowerState.OFF:
                api_request = StartInstanceRequest(instance_id=instance.instance_id)
                still_wanted(NAME)
                self._clients.get().ecs.start_instance(api_request)
            case _:
                raise Busy(NAME, f"the instance is {instance.status}")

    def reset(self, machine: ProviderMachine, request: str) -> None:
        instance = self._checked(machine)
        if instance.status != "Running":
            raise Refused(NAME, f"the instance is {instance.status}, not Running")
        api_request = RebootInstanceRequest(instance_id=instance.instance_id, force_stop=True)
        still_wanted(NAME)
        self._clients.get().ecs.reboot_instance(api_request)

    def replace(self, machine: ProviderMachine, request: str) -> None:
        instance = self._checked(machine)
        member = self._member(instance.instance_id)
        if member is None:
            raise Refused(NAME, "the instance is in no scaling group: none would follow it")
        if member.lifecycle_state in LEAVING:
            return
        if member.creation_type == "Attached" and not member.entrusted:
            raise Refused(NAME, "the instance was attached by hand: its group would not release it")
        self._group_makes_another(member.scaling_group_id)
        still_wanted(NAME)
        self._clients.get().ess.remove_instances(
            RemoveInstancesRequest(
                region_id=self._settings.region,
                scaling_group_id=member.scaling_group_id,
                instance_ids=[instance.instance_id],
                remove_policy="release",
                decrease_desired_capacity=False,
                client_token=str(uuid.uuid5(_NAMESPACE, request)),
            )
        )

    def approve(self, machine: ProviderMachine, event: str) -> None:
        instance, region = self._checked(machine), self._settings.region
        query = DescribeInstanceHistoryEventsRequest(
            region_id=region,
            instance_id=instance.instance_id,
            event_id=[event],
            instance_event_cycle_status=[WAITS_FOR_US, *IN_PROGRESS, *FINISHED],
        )
        ecs = self._clients.get().ecs
        event_set = ecs.describe_instance_history_events(query).body.instance_system_event_set
        about = next(
            iter((event_set.instance_system_event_type if event_set else None) or ()), None
        )
        if about is None or about.instance_id != instance.instance_id:
            raise Refused(NAME, f"{instance.instance_id} has no system event {event}")
        status = about.event_cycle_status.name if about.event_cycle_status else ""
        if status in IN_PROGRESS:
            return
        if status != WAITS_FOR_US:
            raise Refused(NAME, f"system event {event} is {status}: it waits for nobody")
        still_wanted(NAME)
        ecs.accept_inquired_system_event(
            AcceptInquiredSystemEventRequest(region_id=region, event_id=event)
        )

    def explain(self, error: Exception) -> ProviderError | None:
        return explain(error)

    def close(self) -> None:
        """Do nothing: the SDK keeps its connections for the whole process."""

    def _instance(self, machine: ProviderMachine) -> Any:
        wanted, region = ids.ecs(machine.provider_id).instance, self._settings.region
        query = DescribeInstancesRequest(region_id=region, instance_ids=json.dumps([wanted]))
        body = self._clients.get().ecs.describe_instances(query).body
        instances = list((body.instances.instance if body.instances else None) or ())
        if not instances:
            self._may_describe(wanted)
            raise NoSuchMachine(NAME, f"no instance {wanted} in {region}")
        if instances[0].instance_id != wanted:
            raise Refused(NAME, f"asked for {wanted}, ECS answers {instances[0].instance_id}")
        return instances[0]

    def _may_describe(self, instance: str) -> None:
        """Check by a dry run that we have the right to describe `instance`.

        Without that right ECS returns an empty list instead of an error. Raises the error of the
        dry run.
        """
        query = DescribeInstancesRequest(
            region_id=self._settings.region, instance_ids=json.dumps([instance]), dry_run=True
        )
        try:
            self._clients.get().ecs.describe_instances(query)
        except AlibabaCloudException as error:
            if error.code != ALLOWED:
                raise

    def _checked(self, machine: ProviderMachine) -> Any:
        """Return the instance, proved to be the Node's. Raises Refused on a mismatch."""
        instance = self._instance(machine)
        inside = instance.vpc_attributes.private_ip_address if instance.vpc_attributes else None
        addresses = list((inside.ip_address if inside else None) or ())
        name, known = instance.host_name or "", instance.instance_id
        if wrong := differs_on_ecs(machine.node, name, known, addresses):
            raise Refused(NAME, wrong)
        return instance

    def _member(self, instance: str) -> Any | None:
        query = DescribeScalingInstancesRequest(
            region_id=self._settings.region, instance_ids=[instance]
        )
        body = self._clients.get().ess.describe_scaling_instances(query).body
        return next(iter(body.scaling_instances or ()), None)

    def _group(self, group: str) -> Any:
        query = DescribeScalingGroupsRequest(
            region_id=self._settings.region, scaling_group_ids=[group]
        )
        groups = self._clients.get().ess.describe_scaling_groups(query).body.scaling_groups
        if not groups:
            raise Refused(NAME, f"scaling group {group} is not found")
        return groups[0]

    def _group_leaves_alone(self, instance: str) -> None:
        """Raise Refused if a scaling group would remove the instance once it is stopped."""
        if self._settings.stop_in_group is StopInGroup.ALLOW:
            return
        member = self._member(instance)
        if member is None or member.lifecycle_state in ("Standby", "Stopped"):
            return
        group = self._group(member.scaling_group_id)
        checked = group.health_check_type != "NONE"
        if not checked or "HealthCheck" in (group.suspended_processes or ()):
            return
        raise Refused(
            NAME,
            f"scaling group {group.scaling_group_id} would remove the instance while it is"
            " stopped: use reset or replace, put it in Standby, suspend HealthCheck, or set"
            " stopInGroup: Allow",
        )

    def _group_makes_another(self, group_id: str) -> None:
        """Raise Refused if the group would not replace an instance that is removed from it."""
        group = self._group(group_id)
        if "ScaleOut" in (group.suspended_processes or ()):
            raise Refused(
                NAME, f"scaling group {group_id} has ScaleOut suspended: none would follow"
            )
        if group.desired_capacity is None and (group.total_capacity or 0) > (group.min_size or 0):
            raise Refused(
                NAME,
                f"scaling group {group_id} has no desired capacity and stays above its minimum of"
                f" {group.min_size}: none would follow; set its desired capacity",
            )


def _clients(settings: AlibabaSettings, given: Credentials | None) -> AlibabaClients:
    """Build the clients without retries: the SDK retries only if its configuration says so."""
    credentials = given or Credentials()
    ess = EssClient(_config(settings, settings.ess_endpoint, credentials))
    return AlibabaClients(ecs_client(settings, credentials), ess)


def ecs_client(
    settings: AlibabaSettings, given: Credentials | None, retries: RetryOptions | None = None
) -> EcsClient:
    return EcsClient(_config(settings, settings.endpoint, given or Credentials(), retries))


def _config(
    settings: AlibabaSettings,
    endpoint: str,
    credentials: Credentials,
    retries: RetryOptions | None = None,
) -> Config:
    connect, read = settings.seconds
    scheme, _, address = endpoint.rpartition("://")
    return Config(
        credential=credentials,
        region_id=settings.region,
        endpoint=address.rstrip("/") or None,
        protocol=scheme.upper() or "HTTPS",
        connect_timeout=int(connect * 1000),
        read_timeout=int(read * 1000),
        ca=settings.ca_file or None,
        user_agent="kubenode",
        retry_options=retries,
    )
