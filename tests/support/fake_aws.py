"""EC2 and Auto Scaling: moto where it is true, and published XML where moto has no word for it."""

from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

import boto3
from moto.ec2.models import ec2_backends
from support.cloud_server import Answer, CloudServer, Request
from support.provider_contract import Trouble
from support.vendor_models import AwsModel

from kubenode.providers.port import PowerState

if TYPE_CHECKING:
    from mypy_boto3_autoscaling import AutoScalingClient
    from mypy_boto3_ec2 import EC2Client

REGION = "eu-west-1"
ACCOUNT = "123456789012"
SEEN = "seen by the test"
STATES = {
    "running": PowerState.ON,
    "stopped": PowerState.OFF,
    "terminated": PowerState.GONE,
}
TROUBLES = {
    Trouble.THROTTLED: (503, "RequestLimitExceeded", "Request limit exceeded."),
    Trouble.DENIED: (
        403,
        "UnauthorizedOperation",
        "You are not authorized to perform this operation."
        " Encoded authorization failure message: " + "4GIOHlTkIaWHQD0Q" * 20,
    ),
    Trouble.BUSY: (
        400,
        "IncorrectInstanceState",
        "The instance 'i-0123456789abcdef0' is not in a state from which it can be stopped.",
    ),
    Trouble.BROKEN: (500, "InternalError", "An internal error has occurred"),
}


class MotoMachine:
    """An instance of moto. It boots when moto makes it run: then it forgets why it changed."""

    def __init__(self, instance: str) -> None:
        self.id = instance
        self._boots = 0
        self._mark()

    @property
    def _inside(self) -> Any:
        return ec2_backends[ACCOUNT][REGION].get_instance(self.id)

    def _mark(self) -> None:
        self._inside.state_reason.code = SEEN

    def at(self, state: PowerState) -> bool:
        return STATES[self._inside.state] is state

    def settle(self) -> None:
        if self.at(PowerState.ON) and self._inside.state_reason.code != SEEN:
            self._boots += 1
            self._mark()

    @property
    def boots(self) -> int:
        return self._boots


class FakeAws:
    """To be made inside of moto's `mock_aws`."""

    def __init__(self) -> None:
        self.group = ""
        self._groups = count(1)
        self.ec2: EC2Client = boto3.client("ec2", region_name=REGION)
        self.scaling: AutoScalingClient = boto3.client("autoscaling", region_name=REGION)

    def instance(self) -> MotoMachine:
        made = self.ec2.run_instances(
            ImageId="ami-12c6146b",
            MinCount=1,
            MaxCount=1,
            InstanceType="m5.large",
            Placement={"AvailabilityZone": f"{REGION}a"},
        )
        return MotoMachine(made["Instances"][0]["InstanceId"])

    def member(self) -> MotoMachine:
        """The only instance of a new group, `group`, which wants one."""
        self.group = f"workers-{next(self._groups)}"
        self.ec2.create_launch_template(
            LaunchTemplateName=self.group,
            LaunchTemplateData={"ImageId": "ami-12c6146b", "InstanceType": "m5.large"},
        )
        self.scaling.create_auto_scaling_group(
            AutoScalingGroupName=self.group,
            LaunchTemplate={"LaunchTemplateName": self.group},
            MinSize=0,
            MaxSize=3,
            DesiredCapacity=1,
            AvailabilityZones=[f"{REGION}a"],
        )
        return MotoMachine(self.members()[0])

    def members(self) -> list[str]:
        answer = self.scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[self.group])
        return [i["InstanceId"] for i in answer["AutoScalingGroups"][0]["Instances"]]

    def private_dns(self, instance: str) -> str:
        answer = self.ec2.describe_instances(InstanceIds=[instance])
        return answer["Reservations"][0]["Instances"][0]["PrivateDnsName"]


class PublishedEc2:
    """Answers of the EC2 API, in the form of its reference.

    describe  what DescribeInstances says of the one instance; None: an empty list
    error     instead of any answer, as status, code and words
    """

    def __init__(self) -> None:
        self.describe: str | None = None
        self.error: tuple[int, str, str] | None = None
        self.lifecycle = ""
        """State of the instance in its group `workers`; "" is in no group."""
        self.completed: list[Mapping[str, str]] = []
        self.on_change: tuple[int, str, str] | None = None
        """Answered to whatever changes something."""
        ec2, groups = AwsModel("ec2"), AwsModel("autoscaling")
        self.server = CloudServer(
            self._answer,
            check=lambda request, answer: (groups if groups.has(request) else ec2).check(
                request, answer
            ),
        )

    @property
    def actions(self) -> list[str]:
        return [request.form["Action"] for request in self.server.asked]

    def _answer(self, request: Request) -> Answer:
        if self.error is not None:
            return error(*self.error)
        match request.form["Action"]:
            case "DescribeInstances":
                return xml("DescribeInstances", f"<reservationSet>{self._items()}</reservationSet>")
            case "DescribeAutoScalingInstances":
                inside = f"<AutoScalingInstances>{self._member()}</AutoScalingInstances>"
                return scaling("DescribeAutoScalingInstances", inside)
            case "CompleteLifecycleAction":
                self.completed.append(request.form)
                self.lifecycle = "Terminating:Proceed"
                return scaling("CompleteLifecycleAction", "")
            case action if self.on_change is not None:
                assert action
                return error(*self.on_change)
            case action:
                return xml(action, "<instancesSet/>")

    def _member(self) -> str:
        if not self.lifecycle:
            return ""
        return (
            "<member><InstanceId>i-0123456789abcdef0</InstanceId>"
            "<AutoScalingGroupName>workers</AutoScalingGroupName>"
            f"<LifecycleState>{self.lifecycle}</LifecycleState></member>"
        )

    def _items(self) -> str:
        if self.describe is None:
            return ""
        return (
            "<item><reservationId>r-1234567890abcdef0</reservationId>"
            f"<ownerId>{ACCOUNT}</ownerId><groupSet/><instancesSet>{self.describe}</instancesSet>"
            "</item>"
        )


def described(instance: str, code: int, state: str, more: str = "") -> str:
    return (
        f"<item><instanceId>{instance}</instanceId><imageId>ami-bff32ccc</imageId>"
        f"<instanceState><code>{code}</code><name>{state}</name></instanceState>"
        "<privateDnsName>ip-192-168-1-88.eu-west-1.compute.internal</privateDnsName>"
        "<instanceType>m5.large</instanceType><rootDeviceType>ebs</rootDeviceType>"
        f"{more}</item>"
    )


def xml(action: str, inside: str) -> Answer:
    space = "http://ec2.amazonaws.com/doc/2016-11-15/"
    body = (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<{action}Response xmlns="{space}">'
        f"<requestId>8f7724cf-496f-496e-8fe3-example</requestId>{inside}</{action}Response>"
    )
    return Answer(200, body.encode(), {"Content-Type": "text/xml;charset=UTF-8"})


def scaling(action: str, inside: str) -> Answer:
    space = "http://autoscaling.amazonaws.com/doc/2011-01-01/"
    body = (
        f'<{action}Response xmlns="{space}"><{action}Result>{inside}</{action}Result>'
        "<ResponseMetadata><RequestId>7c6e177f-f082-11e1-ac58-example</RequestId>"
        f"</ResponseMetadata></{action}Response>"
    )
    return Answer(200, body.encode(), {"Content-Type": "text/xml"})


def error(status: int, code: str, message: str) -> Answer:
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<Response><Errors><Error>'
        f"<Code>{code}</Code><Message>{message}</Message></Error></Errors>"
        "<RequestID>ea966190-f9aa-478e-9ede-example</RequestID></Response>"
    )
    headers = {"Content-Type": "text/xml;charset=UTF-8"}
    if "Limit" in code:
        headers["Retry-After"] = "5"
    return Answer(status, body.encode(), headers)
