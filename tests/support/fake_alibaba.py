"""ECS and ESS of Alibaba Cloud, as far as provider alibaba talks to them.

Bodies have the form of the published references of ECS 2014-05-26 and ESS 2022-02-22. As there, who
lacks the right to describe sees an empty list, and only a dry run tells so.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from support.cloud_server import Answer, CloudServer, Request
from support.fake_machine import FakeMachine
from support.provider_contract import Trouble
from support.vendor_models import AlibabaModel

from kubenode.providers.port import PowerState

REGION = "cn-hangzhou"
STATUS = {
    PowerState.ON: "Running",
    PowerState.OFF: "Stopped",
    PowerState.STARTING: "Starting",
    PowerState.STOPPING: "Stopping",
}
TROUBLES = {
    Trouble.THROTTLED: (
        400,
        "Throttling.User",
        "Request was denied due to user flow control.",
    ),
    Trouble.DENIED: (403, "Forbidden.RAM", "User not authorized to operate on the resource."),
    Trouble.BUSY: (
        403,
        "IncorrectInstanceStatus",
        "The current status of the resource does not support this operation.",
    ),
    Trouble.BROKEN: (500, "InternalError", "The request processing has failed."),
}


@dataclass(slots=True)
class FakeGroup:
    name: str = "asg-bp1igpak5ft1flyp0001"
    desired: int | None = 3
    smallest: int = 0
    suspended: list[str] = field(default_factory=list)
    check: str = "ECS"


@dataclass(slots=True)
class Member:
    group: FakeGroup
    state: str = "InService"
    creation: str = "AutoCreated"


class FakeAlibaba:
    """nodes  private address and host name of each instance"""

    def __init__(self) -> None:
        self.machines: dict[str, FakeMachine] = {}
        self.nodes: dict[str, tuple[str, str]] = {}
        self.members: dict[str, Member] = {}
        self.trouble: Trouble | None = None
        self.refusal: tuple[int, str, str] | None = None
        """Answered to whatever changes something."""
        self.blind = False
        """Describing is not allowed."""
        self.tokens: set[str] = set()
        self.events: dict[str, tuple[str, str]] = {}
        """Instance and cycle status of each system event."""
        self.server = CloudServer(self._answer, check=AlibabaModel().check)

    def add(self, instance: str, address: str, hostname: str) -> FakeMachine:
        self.machines[instance] = machine = FakeMachine()
        self.nodes[instance] = (address, hostname)
        return machine

    def _answer(self, request: Request) -> Answer:
        if self.trouble is not None:
            return error(*TROUBLES[self.trouble])
        assert request.headers.get("authorization", "").startswith("ACS3-HMAC-SHA256 ")
        action, form = request.headers["x-acs-action"], dict(request.form)
        match action:
            case "DescribeInstances":
                return self._describe(form)
            case "DescribeScalingInstances":
                return self._scaling_instances(form)
            case "DescribeScalingGroups":
                return self._scaling_groups(form)
            case "DescribeInstanceHistoryEvents":
                return self._history(form)
            case _:
                return self._change(action, form)

    def _change(self, action: str, form: dict[str, str]) -> Answer:
        if self.refusal is not None:
            return error(*self.refusal)
        if action == "RemoveInstances":
            return self._remove(form)
        if action == "AcceptInquiredSystemEvent":
            instance, status = self.events[form["EventId"]]
            assert status == "Inquiring"
            self.events[form["EventId"]] = (instance, "Scheduled")
            return done({})
        machine = self.machines.get(form["InstanceId"])
        if machine is None:
            return error(404, "InvalidInstanceId.NotFound", "The InstanceId does not exist.")
        match action:
            case "StopInstance":
                assert yes(form["ForceStop"]) and form["StoppedMode"] == "KeepCharging"
                machine.off()
            case "StartInstance":
                machine.on()
            case "RebootInstance":
                assert yes(form["ForceStop"]), "its system may hang"
                machine.restart()
            case _:
                return error(404, "InvalidAction.NotFound", "Specified api is not found.")
        return done({})

    def _describe(self, form: dict[str, str]) -> Answer:
        assert form["RegionId"] == REGION
        if yes(form.get("DryRun", "")):
            if self.blind:
                return error(403, "Forbidden.RAM", "User not authorized.")
            return error(400, "DryRunOperation", "Request validation has been passed.")
        wanted = [] if self.blind else json.loads(form["InstanceIds"])
        found = [self._instance(i) for i in wanted if i in self.machines]
        found = [i for i in found if self.machines[i["InstanceId"]].state is not PowerState.GONE]
        page = {"PageSize": 10, "PageNumber": 1, "TotalCount": len(found), "NextToken": ""}
        return done({**page, "Instances": {"Instance": found}})

    def _instance(self, instance: str) -> dict[str, Any]:
        address, hostname = self.nodes[instance]
        return {
            "InstanceId": instance,
            "InstanceName": "worker-k8s-for-cs-c0ffee",
            "HostName": hostname,
            "Status": STATUS.get(self.machines[instance].state, "Unheard"),
            "StoppedMode": "Not-applicable",
            "RegionId": REGION,
            "ZoneId": f"{REGION}-i",
            "InstanceType": "ecs.g7.large",
            "InstanceChargeType": "PostPaid",
            "InstanceNetworkType": "vpc",
            "VpcAttributes": {
                "VpcId": "vpc-bp1vwnn14rqpyiczj0001",
                "NatIpAddress": "",
                "PrivateIpAddress": {"IpAddress": [address]},
            },
            "OperationLocks": {"LockReason": []},
            "HibernationOptions": {"Configured": False},
            "CreationTime": "2026-11-02T03:04Z",
        }

    def _history(self, form: dict[str, str]) -> Answer:
        wanted = {value for name, value in form.items() if name.startswith("EventId.")}
        states = {v for name, v in form.items() if name.startswith("InstanceEventCycleStatus.")}
        found = [
            {
                "InstanceId": instance,
                "EventId": event,
                "EventPublishTime": "2026-11-20T06:32:31Z",
                "NotBefore": "2026-11-23T02:00:00Z",
                "EventType": {"Code": 1, "Name": "SystemMaintenance.Redeploy"},
                "EventCycleStatus": {"Code": 24, "Name": status},
                "Reason": "Host risk detected.",
            }
            for event, (instance, status) in self.events.items()
            if event in wanted and instance == form["InstanceId"] and status in states
        ]
        page = {"PageSize": 10, "PageNumber": 1, "TotalCount": len(found)}
        return done({**page, "InstanceSystemEventSet": {"InstanceSystemEventType": found}})

    def _scaling_instances(self, form: dict[str, str]) -> Answer:
        wanted = [value for name, value in form.items() if name.startswith("InstanceIds.")]
        found = [
            {
                "InstanceId": instance,
                "ScalingGroupId": self.members[instance].group.name,
                "LifecycleState": self.members[instance].state,
                "CreationType": self.members[instance].creation,
                "HealthStatus": "Healthy",
                "Entrusted": self.members[instance].creation != "Attached",
            }
            for instance in wanted
            if instance in self.members
        ]
        page = {"PageSize": 10, "PageNumber": 1, "TotalCount": len(found)}
        return done({**page, "ScalingInstances": found})

    def _scaling_groups(self, form: dict[str, str]) -> Answer:
        wanted = {value for name, value in form.items() if name.startswith("ScalingGroupIds.")}
        groups = {member.group.name: member.group for member in self.members.values()}
        found: list[dict[str, Any]] = []
        for name in wanted & set(groups):
            group = groups[name]
            shown = {
                "ScalingGroupId": name,
                "LifecycleState": "Active",
                "MinSize": group.smallest,
                "MaxSize": 10,
                "TotalCapacity": len(self.members),
                "HealthCheckType": group.check,
                "SuspendedProcesses": group.suspended,
            }
            found.append(shown if group.desired is None else {**shown, "DesiredCapacity": 3})
        page = {"PageSize": 10, "PageNumber": 1, "TotalCount": len(found)}
        return done({**page, "ScalingGroups": found})

    def _remove(self, form: dict[str, str]) -> Answer:
        assert not yes(form["DecreaseDesiredCapacity"]) and form["RemovePolicy"] == "release"
        if form["ClientToken"] not in self.tokens:
            self.tokens.add(form["ClientToken"])
            instance = form["InstanceIds.1"]
            self.members[instance].state = "Removing"
            self.machines[instance].leave()
        return done({"ScalingActivityId": "asa-bp1dpzz1z4p5qxxx0001"})


def yes(value: str) -> bool:
    assert value.lower() in ("", "true", "false")
    return value.lower() == "true"


def done(body: dict[str, Any]) -> Answer:
    return Answer(200, {"RequestId": "473469C7-AA6F-4DC5-B3DB-A3DC0DE3C83E", **body})


def error(status: int, code: str, message: str) -> Answer:
    body = {
        "RequestId": "473469C7-AA6F-4DC5-B3DB-A3DC0DE3C83E",
        "HostId": "ecs.cn-hangzhou.aliyuncs.com",
        "Code": code,
        "Message": message,
        "Recommend": f"https://api.alibabacloud.com/troubleshoot?q={code}",
    }
    return Answer(status, body, {"x-acs-retry-after": "4000"} if "Throttling" in code else {})
