"""EC2 instances, and the Auto Scaling groups that they belong to.

EC2 has no client token for stop, start and reboot. `off` and `on` read the state first and may be
repeated; a reset is sent once. An Auto Scaling group treats an instance that is not running as
unhealthy and terminates it. `off` of a member would lose the instance, so it is refused unless the
group would leave the stopped instance alone or the settings allow it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import boto3
from botocore.config import Config
from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials
from botocore.session import Session
from botocore.session import get_session as new_session

from kubenode.providers import ids
from kubenode.providers.aws.errors import NAME, explain
from kubenode.providers.errors import (
    Busy,
    Denied,
    NoSuchMachine,
    ProviderError,
    Refused,
    Unsupported,
)
from kubenode.providers.port import Can, Power, PowerState, ProviderMachine
from kubenode.providers.sameness import differs_on_ec2
from kubenode.providers.settings import AwsSettings, StopInGroup
from kubenode.providers.threads import Once, still_wanted
from kubenode.runtime.clock import Clock

if TYPE_CHECKING:  # stubs, of the development environment only
    from mypy_boto3_autoscaling import AutoScalingClient
    from mypy_boto3_ec2 import EC2Client

Instance: TypeAlias = Mapping[str, Any]

STATES = {
    "pending": PowerState.STARTING,
    "running": PowerState.ON,
    "stopping": PowerState.STOPPING,
    "shutting-down": PowerState.STOPPING,
    "stopped": PowerState.OFF,
    "terminated": PowerState.GONE,
}
"""Power state by the InstanceState of the EC2 API."""
HIBERNATED = "Client.UserInitiatedHibernate"
"""State reason of a hibernated instance. A start restores its memory with pending writes, so its
power state is UNKNOWN, not OFF.
"""
REPLACING_PROCESSES = frozenset({"HealthCheck", "ReplaceUnhealthy"})
"""Processes of a group. While one of them is suspended, the group replaces no stopped instance."""
LIFECYCLE = "lifecycle"
"""First part of the ID of an event that waits for a lifecycle action: `lifecycle/HOOK/TOKEN`."""
COMPLETED = frozenset({"Terminating", "Terminating:Proceed", "Terminated"})


class Aws:
    """Provider for one region of one account."""

    name = NAME
    can = Can(off=True, reset=True, replace=True, approve=True)

    def __init__(self, settings: AwsSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._clients = Once(lambda: _clients(settings))

    def owns(self, machine: ProviderMachine) -> bool:
        try:
            return ids.in_region(ids.ec2(machine.provider_id).zone, self._settings.region)
        except ids.BadID:
            return False

    def power(self, machine: ProviderMachine) -> Power:
        instance = self._instance(machine)
        raw, why = str(instance["State"]["Name"]), instance.get("StateReason", {}).get("Code", "")
        if raw == "stopped" and why == HIBERNATED:
            return Power(PowerState.UNKNOWN, "hibernated", self._clock.now())
        return Power(_state(instance), raw, self._clock.now())

    def off(self, machine: ProviderMachine, request: str) -> None:
        instance = self._checked(machine)
        if _state(instance).dark or _ending(instance):
            return
        if instance.get("RootDeviceType") == "instance-store":
            raise Refused(NAME, "an instance with its root on instance store cannot be stopped")
        self._group_leaves_alone(instance["InstanceId"])
        still_wanted(NAME)
        self._ec2.stop_instances(
            InstanceIds=[instance["InstanceId"]], Force=True, SkipOsShutdown=True
        )

    def on(self, machine: ProviderMachine, request: str) -> None:
        instance = self._checked(machine)
        match _state(instance):
            case PowerState.ON | PowerState.STARTING:
                return
            case PowerState.GONE:
                raise Refused(NAME, "the instance is terminated: it cannot be started again")
            case PowerState.OFF:
                still_wanted(NAME)
                self._ec2.start_instances(InstanceIds=[instance["InstanceId"]])
            case _ if _ending(instance):
                raise Refused(NAME, "the instance is being terminated")
            case _:
                raise Busy(NAME, f"the instance is {instance['State']['Name']}")

    def reset(self, machine: ProviderMachine, request: str) -> None:
        instance = self._checked(machine)
        if _state(instance) is not PowerState.ON:
            raise Refused(NAME, f"the instance is {instance['State']['Name']}, not running")
        still_wanted(NAME)
        self._ec2.reboot_instances(InstanceIds=[instance["InstanceId"]])

    def replace(self, machine: ProviderMachine, request: str) -> None:
        instance = self._checked(machine)
        if _state(instance) is PowerState.GONE or _ending(instance):
            return
        member = self._member(instance["InstanceId"])
        if member is None:
            raise Refused(NAME, "the instance is in no Auto Scaling group: none would follow it")
        if str(member["LifecycleState"]).startswith("Terminat"):
            return
        if "Launch" in self._suspended(member["AutoScalingGroupName"]):
            group = member["AutoScalingGroupName"]
            raise Refused(NAME, f"group {group} has Launch suspended: none would follow")
        still_wanted(NAME)
        self._scaling.terminate_instance_in_auto_scaling_group(
            InstanceId=instance["InstanceId"], ShouldDecrementDesiredCapacity=False
        )

    def approve(self, machine: ProviderMachine, event: str) -> None:
        """Complete a lifecycle action of the instance's group, which then terminates the instance.

        Does nothing if the action is complete already.
        """
        kind, _, rest = event.partition("/")
        hook, _, token = rest.partition("/")
        if kind != LIFECYCLE or not hook or not token:
            raise Unsupported(NAME, "EC2 has no call that lets a scheduled event start")
        instance = self._checked(machine)
        member = self._member(instance["InstanceId"])
        state = str(member["LifecycleState"]) if member is not None else "Terminated"
        if state in COMPLETED:
            return
        if member is None or state != "Terminating:Wait":
            raise Refused(NAME, f"the instance is {state}: no lifecycle action waits for a word")
        still_wanted(NAME)
        self._scaling.complete_lifecycle_action(
            AutoScalingGroupName=member["AutoScalingGroupName"],
            LifecycleHookName=hook,
            LifecycleActionToken=token,
            LifecycleActionResult="CONTINUE",
            InstanceId=instance["InstanceId"],
        )

    def explain(self, error: Exception) -> ProviderError | None:
        return explain(error)

    def close(self) -> None:
        if (clients := self._clients.made) is not None:
            for client in clients:
                client.close()

    @property
    def _ec2(self) -> "EC2Client":
        return self._clients.get()[0]

    @property
    def _scaling(self) -> "AutoScalingClient":
        return self._clients.get()[1]

    def _instance(self, machine: ProviderMachine) -> Instance:
        wanted = ids.ec2(machine.provider_id).instance
        answer = self._ec2.describe_instances(InstanceIds=[wanted])
        instances = [i for r in answer["Reservations"] for i in r["Instances"]]
        if not instances:
            raise NoSuchMachine(NAME, f"no instance {wanted} in {self._settings.region}")
        if instances[0]["InstanceId"] != wanted:
            raise Refused(NAME, f"asked for {wanted}, EC2 answers {instances[0]['InstanceId']}")
        return instances[0]

    def _checked(self, machine: ProviderMachine) -> Instance:
        """Return the instance, proved to be the Node's. Raises Refused on a mismatch."""
        instance = self._instance(machine)
        dns, known = instance.get("PrivateDnsName", ""), instance["InstanceId"]
        gone = _state(instance) is PowerState.GONE  # a terminated instance has lost its names
        if not gone and (wrong := differs_on_ec2(machine.node, dns, known)):
            raise Refused(NAME, wrong)
        return instance

    def _member(self, instance: str) -> Instance | None:
        answer = self._scaling.describe_auto_scaling_instances(InstanceIds=[instance])
        return next(iter(answer["AutoScalingInstances"]), None)

    def _suspended(self, group: str) -> set[str]:
        answer = self._scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[group])
        processes = (
            p for g in answer["AutoScalingGroups"] for p in g.get("SuspendedProcesses", ())
        )
        return {process["ProcessName"] for process in processes}

    def _group_leaves_alone(self, instance: str) -> None:
        """Raise Refused if a group would replace the instance once it is stopped."""
        if self._settings.stop_in_group is StopInGroup.ALLOW:
            return
        member = self._member(instance)
        if member is None or member["LifecycleState"] == "Standby":
            return
        if self._suspended(member["AutoScalingGroupName"]) & REPLACING_PROCESSES:
            return
        raise Refused(
            NAME,
            f"Auto Scaling group {member['AutoScalingGroupName']} would replace the instance while"
            " it is stopped: use reset or replace, put it in Standby, suspend ReplaceUnhealthy, or"
            " set stopInGroup: Allow",
        )


def _state(instance: Instance) -> PowerState:
    return STATES.get(instance["State"]["Name"], PowerState.UNKNOWN)


def _ending(instance: Instance) -> bool:
    return bool(instance["State"]["Name"] == "shutting-down")


def _clients(settings: AwsSettings) -> "tuple[EC2Client, AutoScalingClient]":
    session = boto_session(settings)
    endpoint, verify = settings.endpoint or None, settings.ca_file or None
    return (
        ec2_client(settings, session),
        session.client(
            "autoscaling", config=_config(settings), endpoint_url=endpoint, verify=verify
        ),
    )


def ec2_client(settings: AwsSettings, session: boto3.Session) -> "EC2Client":
    endpoint, verify = settings.endpoint or None, settings.ca_file or None
    return session.client("ec2", config=_config(settings), endpoint_url=endpoint, verify=verify)


def _config(settings: AwsSettings) -> Config:
    """Build a configuration without retries: the caller retries, and no reboot is sent twice."""
    connect, read = settings.seconds
    return Config(
        connect_timeout=connect,
        read_timeout=read,
        retries={"total_max_attempts": 1, "mode": "standard"},
        user_agent_extra="kubenode",
    )


def boto_session(settings: AwsSettings) -> boto3.Session:
    """Open a session with the credentials of the settings. Raises Denied if there are none."""
    session = boto3.Session(botocore_session=_session(settings), region_name=settings.region)
    if session.get_credentials() is None:
        raise Denied(NAME, "no credentials found: environment, files, pod and instance have none")
    return session


def _session(settings: AwsSettings) -> Session:
    session = new_session()
    if settings.profile:
        session.set_config_variable("profile", settings.profile)
    if not settings.role_arn:
        return session
    source = session.get_credentials()
    if source is None:
        raise Denied(NAME, f"no credentials found to assume {settings.role_arn} with")
    fetcher = AssumeRoleCredentialFetcher(
        client_creator=session.create_client,
        source_credentials=source,
        role_arn=settings.role_arn,
        extra_args={"RoleSessionName": "kubenode"},
    )
    assumed = new_session()
    assumed._credentials = DeferredRefreshableCredentials(  # type: ignore[attr-defined]
        refresh_using=fetcher.fetch_credentials, method="assume-role"
    )
    return assumed
