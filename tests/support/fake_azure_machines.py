"""Azure's resource manager as far as machines are made and ended.

Bodies have the form of the examples of Microsoft.Compute; a condition that does not hold is
answered with 412, as "Conditional headers of Azure Resource Manager" tells.
"""

import base64
import re
from typing import Any

from support.cloud_server import Answer, CloudServer, Request
from support.fake_azure import SUBSCRIPTION, error
from support.fake_fleet import CREATED, FakeFleet, FakeInstance
from support.instance_contract import Trouble
from support.pki import Identity
from support.vendor_models import AzureMachineModel

GROUP = "Nodes"
"""As it was made; cloud controller managers write it in lower case."""
COMPUTE = "providers/Microsoft.Compute/virtualMachines"
TROUBLES = {
    Trouble.THROTTLED: (429, "TooManyRequests", "The request is being throttled."),
    Trouble.DENIED: (
        403,
        "AuthorizationFailed",
        "The client does not have authorization to perform the action.",
    ),
    Trouble.BUSY: (409, "Conflict", "The request failed due to conflict with another request."),
    Trouble.BROKEN: (500, "InternalServerError", "Encountered internal server error."),
}
NO_ROOM = (
    409,
    "OperationNotAllowed",
    "Operation could not be completed as it results in exceeding approved Total Regional Cores"
    " quota. Additional details - Current Limit: 10.",
)
_LIST = f"/subscriptions/{SUBSCRIPTION}/{COMPUTE}".lower()
_ONE = re.compile(
    rf"/subscriptions/{SUBSCRIPTION}/resourcegroups/([^/]+)/{COMPUTE.lower()}/([^/]+)(?:/(\w+))?"
)
STATES = {"pending": "Creating", "running": "Succeeded", "ending": "Deleting"}


class FakeAzureMachines:
    """page  how many machines a page of the list has"""

    def __init__(self, tls: Identity, page: int = 2) -> None:
        self.fleet, self.page = FakeFleet(), page
        self.server = CloudServer(self._answer, tls, AzureMachineModel().check)
        self.bodies: dict[str, dict[str, Any]] = {}
        self.failed = ""
        """Why machines that were accepted cannot be allocated."""
        self.groups = {GROUP.lower()}
        self.operations: list[str] = []

    def add_stranger(self) -> str:
        made = FakeInstance("theirs", "theirs", {"team": "x"}, "", "", "running")
        self.bodies[made.id] = {"location": "westeurope"}
        return self.fleet.add(made).id

    def _answer(self, request: Request) -> Answer:
        if (trouble := self.fleet.trouble) in TROUBLES:
            return error(*TROUBLES[trouble])
        if not request.headers.get("authorization", "").startswith("Bearer "):
            return error(401, "AuthenticationFailed", "Authentication failed.")
        if request.path.lower() == _LIST:
            return self._list(request)
        found = _ONE.fullmatch(request.path.lower())
        if found is None:
            return error(404, "InvalidResourceType", "The resource type could not be found.")
        if found[1] not in self.groups:
            told = f"Resource group '{found[1]}' could not be found."
            return error(404, "ResourceGroupNotFound", told)
        one = self.fleet.instances.get(found[2])
        if one is not None and one.state == "ended":
            one = None
        match request.method, found[3] or "":
            case "PUT", "":
                return self._put(request, found[2], one)
            case _ if one is None:
                return error(404, "ResourceNotFound", f"'{request.path}' was not found.")
            case "GET", "":
                assert request.form.get("$expand") == "instanceView"
                return Answer(200, self._body(one, view=True))
            case "DELETE", "":
                one.state = "ending"
                return Answer(202, None, self._later())
            case "POST", what:
                self.operations.append(what)
                return Answer(202, None, self._later())
            case _:
                return error(405, "MethodNotAllowed", "There is no such operation.")

    def _later(self) -> dict[str, str]:
        status = f"{self.server.url}/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute"
        return {"Location": f"{status}/locations/westeurope/operations/8f9d7c0e"}

    def _put(self, request: Request, name: str, one: FakeInstance | None) -> Answer:
        assert request.headers["if-none-match"] == "*", "nothing may be written over"
        if self.fleet.trouble is Trouble.NO_ROOM:
            return error(*NO_ROOM)
        if one is not None:
            return error(412, "PreconditionFailed", f"The resource {name} already exists.")
        body = request.json
        given = base64.b64decode(body["properties"]["osProfile"]["customData"]).decode()
        assert body["properties"]["storageProfile"]["osDisk"]["deleteOption"] == "Delete"
        (card,) = body["properties"]["networkProfile"]["networkInterfaceConfigurations"]
        assert card["properties"]["deleteOption"] == "Delete", "a card would be left"
        self.bodies[name] = body
        made = self.fleet.add(FakeInstance(name, name, body["tags"], given, ""))
        return self.fleet.answered(
            Answer(201, self._body(made), self._later()),
            lambda: error(*TROUBLES[Trouble.BROKEN]),
        )

    def _list(self, request: Request) -> Answer:
        found = [o for o in self.fleet.instances.values() if o.state != "ended" and not o.hidden]
        begin = int(request.form.get("$skiptoken", "0"))
        end = begin + self.page
        body: dict[str, Any] = {"value": [self._body(one) for one in found[begin:end]]}
        if end < len(found):
            version = request.form["api-version"]
            body["nextLink"] = f"{self.server.url}{_LIST}?$skiptoken={end}&api-version={version}"
        return Answer(200, body)

    def _body(self, one: FakeInstance, *, view: bool = False) -> dict[str, Any]:
        known = self.bodies[one.id]
        state = STATES[one.state]
        codes: list[dict[str, str]] = [{"code": f"ProvisioningState/{state.lower()}"}]
        if one.state == "running" and self.failed:
            state = "Failed"
            codes = [{"code": "ProvisioningState/failed/AllocationFailed", "message": self.failed}]
        elif one.state == "running":
            codes.append({"code": "PowerState/running"})
        properties: dict[str, Any] = {
            "vmId": "b7a098cc-b0b8-46e8-a205-62f301a62a8f",
            "provisioningState": state,
            "timeCreated": CREATED.replace("Z", ".1234567+00:00"),
        }
        if view:
            properties["instanceView"] = {"statuses": codes}
        group = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP.upper()}"
        return {
            "name": one.name,
            "id": f"{group}/{COMPUTE}/{one.name}",
            "type": "Microsoft.Compute/virtualMachines",
            "location": known.get("location"),
            "tags": dict(one.tags),
            "properties": properties,
        }
