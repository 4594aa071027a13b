"""ECS of Alibaba Cloud as far as machines are made and ended.

Bodies have the form of the published reference of ECS 2014-05-26. As there, who lacks the right to
describe sees an empty list, and only a dry run tells so; a client token with other parameters is a
mistake.
"""

import base64
import json
from collections.abc import Mapping
from typing import Any

from support.cloud_server import Answer, CloudServer, Request
from support.fake_alibaba import REGION, done, error, yes
from support.fake_fleet import FakeFleet, FakeInstance
from support.instance_contract import Trouble
from support.vendor_models import AlibabaModel

TROUBLES = {
    Trouble.THROTTLED: (400, "Throttling.User", "Request was denied due to user flow control."),
    Trouble.BUSY: (403, "OperationConflict", "Another operation on the resource is under way."),
    Trouble.BROKEN: (500, "InternalError", "The request processing has failed."),
}
DENIED = (403, "Forbidden.RAM", "User not authorized to operate on the specified resource.")
NO_ROOM = (403, "OperationDenied.NoStock", "The resource is out of stock in the specified zone.")
STATES = {"pending": "Pending", "running": "Running", "ending": "Stopped"}
KNOWN = {"ImageId": "debian_12_10_x64_20G.vhd", "VSwitchId": "vsw-bp1s5fnvk4gn2tws0001"}
MISSING = {"ImageId": "InvalidImageId.NotFound", "VSwitchId": "InvalidVSwitchId.NotFound"}


class FakeAlibabaInstances:
    """page  how many instances a page has, however many are asked for"""

    def __init__(self, page: int = 2) -> None:
        self.fleet, self.page = FakeFleet(), page
        self.server = CloudServer(self._answer, check=AlibabaModel().check)
        self.last: Mapping[str, str] = {}
        """The last request that made an instance."""
        self.under_way = False
        """A request with the same token is still worked on."""
        self.redeployed: list[str] = []

    def add_stranger(self) -> str:
        made = FakeInstance(self._id(), "theirs", {"team": "x"}, "", "", "running")
        return self.fleet.add(made).id

    def _id(self) -> str:
        return f"i-bp{self.fleet.next():018d}"

    def _answer(self, request: Request) -> Answer:
        if (trouble := self.fleet.trouble) in TROUBLES:
            return error(*TROUBLES[trouble])
        assert request.headers.get("authorization", "").startswith("ACS3-HMAC-SHA256 ")
        action, form = request.headers["x-acs-action"], request.form
        if action == "DescribeInstances":
            return self._describe(form)
        if trouble is Trouble.DENIED:
            return error(*DENIED)
        match action:
            case "RunInstances":
                return self._run(form)
            case "DeleteInstance":
                return self._delete(form)
            case "RedeployInstance":
                self.redeployed.append(form["InstanceId"])
                return done({"TaskId": "t-bp1dpzz1z4p5qxxx0001"})
            case _:
                return error(404, "InvalidAction.NotFound", "Specified api is not found.")

    def _run(self, form: Mapping[str, str]) -> Answer:
        if self.fleet.trouble is Trouble.NO_ROOM:
            return error(*NO_ROOM)
        assert form["RegionId"] == REGION and form["Amount"] == "1"
        assert form["HttpTokens"] == "required"
        for field, code in MISSING.items():
            if form[field] != KNOWN[field]:
                return error(404, code, f"The specified {field} does not exist.")
        self.last = form
        token, words = form["ClientToken"], repr(sorted(form.items()))
        if self.under_way:
            return error(400, "LastTokenProcessing", "The last token request is processing.")
        found = self.fleet.of_token(token)
        if found is not None and found.words != words:
            told = "The specified parameter has changed while using an already used clientToken."
            return error(400, "IdempotentParameterMismatch", told)
        if found is None:
            given = base64.b64decode(form["UserData"]).decode()
            made = FakeInstance(self._id(), form["HostName"], _tags(form), given, words)
            found = self.fleet.add(made, token)
        return self.fleet.answered(
            done({"InstanceIdSets": {"InstanceIdSet": [found.id]}}),
            lambda: error(*TROUBLES[Trouble.BROKEN]),
        )

    def _describe(self, form: Mapping[str, str]) -> Answer:
        blind = self.fleet.trouble is Trouble.DENIED
        if yes(form.get("DryRun", "")):
            if blind:
                return error(*DENIED)
            return error(400, "DryRunOperation", "Request validation has been passed.")
        if (wanted := form.get("InstanceIds")) is not None:
            one = self.fleet.instances.get(json.loads(wanted)[0])
            found = [] if one is None else [one]
        else:
            tags = _tags(form)
            assert tags, "a list without a tag would be that of the whole region"
            found = self.fleet.tagged(tags)
        found = [] if blind else [one for one in found if one.state != "ended"]
        assert int(form["MaxResults"]) <= 100
        begin = int(form.get("NextToken", "0"))
        end = begin + self.page
        return done(
            {
                "PageSize": 10,
                "PageNumber": 1,
                "TotalCount": 0,
                "NextToken": str(end) if end < len(found) else "",
                "Instances": {"Instance": [_instance(one) for one in found[begin:end]]},
            }
        )

    def _delete(self, form: Mapping[str, str]) -> Answer:
        one = self.fleet.instances.get(form["InstanceId"])
        if one is None or one.state == "ended":
            return error(404, "InvalidInstanceId.NotFound", "The InstanceId does not exist.")
        assert yes(form["Force"]), "a running instance is not released without"
        if one.state == "pending":
            told = "The specified instance status does not support this operation."
            return error(403, "IncorrectInstanceStatus.Initializing", told)
        one.state = "ending"
        return done({})


def _tags(form: Mapping[str, str]) -> dict[str, str]:
    numbers = {key.split(".")[1] for key in form if key.startswith("Tag.")}
    return {form[f"Tag.{n}.Key"]: form[f"Tag.{n}.Value"] for n in numbers}


def _instance(one: FakeInstance) -> dict[str, Any]:
    return {
        "InstanceId": one.id,
        "InstanceName": one.name,
        "HostName": one.name,
        "Status": STATES[one.state],
        "RegionId": REGION,
        "ZoneId": f"{REGION}-i",
        "InstanceType": "ecs.g7.large",
        "VpcAttributes": {
            "VpcId": "vpc-bp1vwnn14rqpyiczj0001",
            "PrivateIpAddress": {"IpAddress": ["192.168.7.21"]},
        },
        "Tags": {"Tag": [{"TagKey": key, "TagValue": value} for key, value in one.tags.items()]},
        "CreationTime": "2026-11-02T03:04Z",
    }
