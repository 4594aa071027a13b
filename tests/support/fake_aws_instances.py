"""EC2 as far as machines are made and ended: answers in the form of its reference.

Idempotency as "Ensuring idempotency" tells: a client token with other parameters is a mistake, one
of an instance that has ended still names it.
"""

import base64
import re
from collections.abc import Mapping

from support.cloud_server import Answer, CloudServer, Request
from support.fake_aws import ACCOUNT, error, xml
from support.fake_fleet import CREATED, FakeFleet, FakeInstance
from support.instance_contract import Trouble
from support.vendor_models import AwsModel

ZONE = "eu-west-1a"
STATES = {
    "pending": (0, "pending"),
    "running": (16, "running"),
    "ending": (32, "shutting-down"),
    "ended": (48, "terminated"),
}
TROUBLES = {
    Trouble.THROTTLED: (503, "RequestLimitExceeded", "Request limit exceeded."),
    Trouble.DENIED: (
        403,
        "UnauthorizedOperation",
        "You are not authorized to perform this operation."
        " Encoded authorization failure message: " + "4GIOHlTkIaWHQD0Q" * 20,
    ),
    Trouble.BUSY: (400, "ConcurrentModification", "The request conflicts with another."),
    Trouble.BROKEN: (500, "InternalError", "An internal error has occurred"),
}
NO_ROOM = (
    400,
    "VcpuLimitExceeded",
    "You have requested more vCPU capacity than your current vCPU limit of 32 allows.",
)
KNOWN = {"ImageId": "ami-0123456789abcdef0", "SubnetId": "subnet-0123456789abcdef0"}
MISSING = {"ImageId": "InvalidAMIID.NotFound", "SubnetId": "InvalidSubnetID.NotFound"}


class FakeAwsInstances:
    """page  how many instances a page has, however many are asked for"""

    def __init__(self, page: int = 2) -> None:
        self.fleet, self.page = FakeFleet(), page
        self.server = CloudServer(self._answer, check=AwsModel("ec2").check)
        self.last: Mapping[str, str] = {}
        """The last request that made an instance."""

    def add_stranger(self) -> str:
        made = FakeInstance(self._id(), "theirs", {"Name": "theirs"}, "", "", "running")
        return self.fleet.add(made).id

    def _id(self) -> str:
        return f"i-{self.fleet.next():017x}"

    def _answer(self, request: Request) -> Answer:
        if (trouble := self.fleet.trouble) in TROUBLES:
            return error(*TROUBLES[trouble])
        form = request.form
        match form["Action"]:
            case "RunInstances":
                return self._run(form)
            case "DescribeInstances":
                return self._describe(form)
            case "TerminateInstances":
                return self._terminate(form["InstanceId.1"])
            case action:
                return error(400, "InvalidAction", f"The action {action} is not valid.")

    def _run(self, form: Mapping[str, str]) -> Answer:
        if self.fleet.trouble is Trouble.NO_ROOM:
            return error(*NO_ROOM)
        assert (form["MinCount"], form["MaxCount"]) == ("1", "1")
        assert form["MetadataOptions.HttpTokens"] == "required"
        for field, code in MISSING.items():
            if form[field] != KNOWN[field]:
                return error(400, code, f"The {field} '{form[field]}' does not exist")
        self.last = form
        token, words = form["ClientToken"], repr(sorted(form.items()))
        found = self.fleet.of_token(token)
        if found is not None and found.words != words:
            return error(400, "IdempotentParameterMismatch", "The token has other parameters.")
        if found is None:
            tags = _tags(form, "instance")
            assert tags == _tags(form, "volume"), "a disk that is left must say whose it was"
            given = base64.b64decode(form["UserData"]).decode()
            made = FakeInstance(self._id(), tags["Name"], tags, given, words)
            found = self.fleet.add(made, token)
        return self.fleet.answered(
            xml("RunInstances", f"<instancesSet>{_item(found)}</instancesSet>"),
            lambda: error(*TROUBLES[Trouble.BROKEN]),
        )

    def _describe(self, form: Mapping[str, str]) -> Answer:
        if (wanted := form.get("InstanceId.1")) is not None:
            one = self.fleet.instances.get(wanted)
            if one is None:
                told = f"The instance ID '{wanted}' does not exist"
                return error(400, "InvalidInstanceID.NotFound", told)
            return xml("DescribeInstances", _reservations([one]))
        tags = {
            form[key].removeprefix("tag:"): form[f"{key.removesuffix('Name')}Value.1"]
            for key in form
            if re.fullmatch(r"Filter\.\d+\.Name", key)
        }
        found = self.fleet.tagged(tags)
        assert int(form["MaxResults"]) <= 1000
        begin = int(form.get("NextToken", "0"))
        end = begin + self.page
        after = f"<nextToken>{end}</nextToken>" if end < len(found) else ""
        return xml("DescribeInstances", f"{_reservations(found[begin:end])}{after}")

    def _terminate(self, wanted: str) -> Answer:
        one = self.fleet.instances.get(wanted)
        if one is None:
            return error(400, "InvalidInstanceID.NotFound", f"'{wanted}' does not exist")
        before = _state(one, "previousState")
        if one.state != "ended":
            one.state = "ending"
        change = f"<instanceId>{one.id}</instanceId>{_state(one, 'currentState')}{before}"
        return xml("TerminateInstances", f"<instancesSet><item>{change}</item></instancesSet>")


def _tags(form: Mapping[str, str], kind: str) -> dict[str, str]:
    for key, value in form.items():
        found = re.fullmatch(r"TagSpecification\.(\d+)\.ResourceType", key)
        if found and value == kind:
            start = f"TagSpecification.{found[1]}.Tag."
            numbers = {k.removeprefix(start).split(".")[0] for k in form if k.startswith(start)}
            return {form[f"{start}{n}.Key"]: form[f"{start}{n}.Value"] for n in numbers}
    return {}


def _reservations(found: list[FakeInstance]) -> str:
    items = "".join(
        f"<item><reservationId>r-1234567890abcdef0</reservationId><ownerId>{ACCOUNT}</ownerId>"
        f"<groupSet/><instancesSet>{_item(one)}</instancesSet></item>"
        for one in found
    )
    return f"<reservationSet>{items}</reservationSet>"


def _state(one: FakeInstance, element: str) -> str:
    code, name = STATES[one.state]
    return f"<{element}><code>{code}</code><name>{name}</name></{element}>"


def _item(one: FakeInstance) -> str:
    tags = "".join(
        f"<item><key>{key}</key><value>{value}</value></item>" for key, value in one.tags.items()
    )
    gone = one.state == "ended"
    address = "" if gone else "<privateIpAddress>10.0.0.12</privateIpAddress>"
    return (
        f"<item><instanceId>{one.id}</instanceId><imageId>ami-bff32ccc</imageId>"
        f"{_state(one, 'instanceState')}<placement>"
        f"<availabilityZone>{ZONE}</availabilityZone><tenancy>default</tenancy>"
        f"</placement><launchTime>{CREATED}</launchTime>{address}"
        f"<instanceType>m5.large</instanceType><tagSet>{tags}</tagSet></item>"
    )
