"""Compute Engine's API, as far as provider gcp talks to it.

Bodies have the form of the reference of the Compute Engine API v1; request IDs are kept, as there.
"""

import re
from typing import Any

from support.cloud_server import Answer, CloudServer, Request
from support.fake_machine import FakeMachine
from support.provider_contract import Trouble

from kubenode.providers.port import PowerState

PROJECT = "shop-prod-1"
ZONE = "europe-west1-b"
REGION = "europe-west1"
STATUS = {
    PowerState.ON: "RUNNING",
    PowerState.OFF: "TERMINATED",
    PowerState.STARTING: "STAGING",
    PowerState.STOPPING: "STOPPING",
}
TROUBLES = {
    Trouble.THROTTLED: (403, "rateLimitExceeded", "Rate Limit Exceeded"),
    Trouble.DENIED: (
        403,
        "forbidden",
        "Required 'compute.instances.get' permission for 'projects/shop-prod-1/x'",
    ),
    Trouble.BUSY: (400, "resourceNotReady", "The resource 'projects/x' is not ready"),
    Trouble.BROKEN: (503, "backendError", "Backend Error"),
}
_INSTANCE = re.compile(
    rf"/compute/v1/projects/{PROJECT}/zones/{ZONE}/instances/([a-z0-9-]+)(?:/(\w+))?"
)
_GROUP = re.compile(
    rf"/compute/v1/projects/{PROJECT}/(?:zones/{ZONE}|regions/{REGION})"
    r"/instanceGroupManagers/([a-z0-9-]+)(?:/(\w+))?"
)


class FakeGcp:
    """groups  name of the managed instance group to what it does with a failed member"""

    def __init__(self) -> None:
        self.machines: dict[str, FakeMachine] = {}
        self.created_by: dict[str, str] = {}
        self.status: dict[str, str] = {}
        """Instead of that of the machine."""
        self.groups: dict[str, str] = {}
        self.maintenance: dict[str, dict[str, Any]] = {}
        """Upcoming maintenance by name of the instance; PENDING begins when it is asked for."""
        self.trouble: Trouble | None = None
        self.refusal: tuple[int, str, str] | None = None
        """Answered to whatever changes something."""
        self.server = CloudServer(self._answer)

    def add(self, name: str, group: str = "", place: str = f"zones/{ZONE}") -> FakeMachine:
        self.machines[name] = machine = FakeMachine()
        if group:
            self.groups.setdefault(group, "REPAIR")
            self.created_by[name] = f"projects/4711/{place}/instanceGroupManagers/{group}"
        return machine

    def _answer(self, request: Request) -> Answer:
        if self.trouble is not None:
            return error(*TROUBLES[self.trouble])
        if request.path == f"/compute/v1/projects/{PROJECT}/aggregated/instances":
            inside = [self._body(name, machine) for name, machine in self.machines.items()]
            return Answer(200, {"items": {f"zones/{ZONE}": {"instances": inside}}})
        if found := _GROUP.fullmatch(request.path):
            return self._group(request, found[1], found[2] or "")
        found = _INSTANCE.fullmatch(request.path)
        machine = self.machines.get(found[1]) if found else None
        if found is None or machine is None:
            what = request.path.removeprefix("/compute/v1/")
            return error(404, "notFound", f"The resource '{what}' was not found")
        if request.method == "GET":
            return Answer(200, self._body(found[1], machine))
        if self.refusal is not None:
            return error(*self.refusal)
        if machine.once(request.form["requestId"]):
            self._act(request, found[1], found[2] or "", machine)
        return operation(request.path, found[2] or "")

    def _act(self, request: Request, name: str, what: str, machine: FakeMachine) -> None:
        match what:
            case "performMaintenance":
                assert self.maintenance[name]["maintenanceStatus"] == "PENDING"
                self.maintenance[name] |= {"maintenanceStatus": "ONGOING"}
            case "stop":
                assert request.form.get("noGracefulShutdown") == "true", "its system may hang"
                machine.off()
            case "start":
                machine.on()
            case "reset":
                machine.restart()
            case _:
                raise AssertionError(what)

    def _group(self, request: Request, name: str, what: str) -> Answer:
        if name not in self.groups:
            return error(404, "notFound", f"The resource '{request.path}' was not found")
        if request.method == "GET":
            policy = {"defaultActionOnFailure": self.groups[name]}
            body = {"kind": "compute#instanceGroupManager", "name": name}
            return Answer(200, {**body, "instanceLifecyclePolicy": policy})
        assert what == "recreateInstances"
        for url in request.json["instances"]:
            machine = self.machines[str(url).removeprefix(f"zones/{ZONE}/instances/")]
            if machine.once(request.form["requestId"]):
                machine.renew()
        return operation(request.path, "recreateInstancesInstanceGroupManager")

    def _body(self, name: str, machine: FakeMachine) -> dict[str, Any]:
        place = f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/zones/{ZONE}"
        items = [{"key": "kube-env", "value": "ALLOCATE_NODE_CIDRS: true"}]
        if name in self.created_by:
            items.append({"key": "created-by", "value": self.created_by[name]})
        return {
            "kind": "compute#instance",
            "id": str(7000000000000000000 + machine.generation),
            "creationTimestamp": "2026-11-02T03:04:05.678-07:00",
            "name": name,
            "machineType": f"{place}/machineTypes/e2-standard-4",
            "status": self.status.get(name, STATUS.get(machine.state, "UNKNOWN_NEW_STATE")),
            "zone": place,
            "metadata": {"kind": "compute#metadata", "fingerprint": "x", "items": items},
            "selfLink": f"{place}/instances/{name}",
            "scheduling": {"onHostMaintenance": "MIGRATE", "automaticRestart": True},
            **self._status(name),
        }

    def _status(self, name: str) -> dict[str, Any]:
        found = self.maintenance.get(name)
        return {"resourceStatus": {"upcomingMaintenance": found}} if found else {}


def operation(path: str, kind: str) -> Answer:
    return Answer(
        200,
        {
            "kind": "compute#operation",
            "id": "4242424242424242424",
            "name": "operation-1762081445678-0123456789abc-01234567-89abcdef",
            "operationType": kind,
            "targetLink": f"https://www.googleapis.com{path.rpartition('/')[0]}",
            "status": "RUNNING",
            "progress": 0,
        },
    )


def error(status: int, reason: str, message: str) -> Answer:
    told = {"message": message, "domain": "global", "reason": reason}
    body = {"error": {"code": status, "message": message, "errors": [told]}}
    return Answer(status, body, {"Retry-After": "9"} if "imit" in reason else {})
