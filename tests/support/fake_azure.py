"""Azure's resource manager, as far as provider azure talks to it.

Bodies have the form of the examples that Microsoft publishes with the specification of
Microsoft.Compute; errors that of "Resource Manager common errors".
"""

import re
from typing import Any

from support.cloud_server import Answer, CloudServer, Request
from support.fake_machine import FakeMachine
from support.pki import Identity
from support.provider_contract import Trouble
from support.vendor_models import AzureMachineModel

from kubenode.providers.port import PowerState

SUBSCRIPTION = "6f1e2d3c-4b5a-4978-8695-a4b3c2d1e0f9"
GROUP = "MC_shop_shop_westeurope"
SET = "aks-pool1-28371-vmss"
BASE = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/Microsoft.Compute"
CODES = {
    PowerState.ON: "PowerState/running",
    PowerState.OFF: "PowerState/stopped",
    PowerState.STARTING: "PowerState/starting",
    PowerState.STOPPING: "PowerState/stopping",
}
_PATH = re.compile(
    re.escape(BASE.lower())
    + r"/(virtualmachinescalesets/[^/]+/virtualmachines/[^/]+|virtualmachines/[^/]+)(?:/(\w+))?"
)
TROUBLES = {
    Trouble.THROTTLED: (429, "TooManyRequests", "The request is being throttled."),
    Trouble.DENIED: (
        403,
        "AuthorizationFailed",
        "The client does not have authorization to perform the action.",
    ),
    Trouble.BUSY: (
        409,
        "Conflict",
        "The request failed due to conflict with a concurrent request.",
    ),
    Trouble.BROKEN: (500, "InternalServerError", "Encountered internal server error."),
}


class FakeAzure:
    """machines  by the end of their path: `virtualMachines/NAME`, `virtualMachineScaleSets/…`"""

    def __init__(self, tls: Identity) -> None:
        self.machines: dict[str, FakeMachine] = {}
        self.names: dict[str, str] = {}
        """The system's name, of machines that were set up with one."""
        self.codes: dict[str, list[str]] = {}
        """Status codes beside that of the power."""
        self.trouble: Trouble | None = None
        self.refusal: tuple[int, str, str] | None = None
        """Answered to whatever changes something."""
        self.server = CloudServer(self._answer, tls, AzureMachineModel().check)

    def add(self, path: str, named: str = "") -> FakeMachine:
        self.machines[path.lower()] = machine = FakeMachine()
        self.names[path.lower()] = named
        return machine

    def _answer(self, request: Request) -> Answer:
        if self.trouble is not None:
            return error(*TROUBLES[self.trouble])
        if not request.headers.get("authorization", "").startswith("Bearer "):
            return error(401, "AuthenticationFailed", "Authentication failed.")
        assert request.form.get("api-version"), "the SDK always names a version"
        found = _PATH.fullmatch(request.path.lower())
        machine = self.machines.get(found[1]) if found else None
        if found is None or machine is None or machine.state is PowerState.GONE:
            return error(404, "ResourceNotFound", f"The Resource '{request.path}' was not found.")
        if request.method == "GET":
            assert request.form.get("$expand") == "instanceView"
            return Answer(200, self._body(found[1], machine))
        if self.refusal is not None:
            return error(*self.refusal)
        return self._act(request, found[2] or "", machine)

    def _act(self, request: Request, what: str, machine: FakeMachine) -> Answer:
        match request.method, what:
            case "POST", "poweroff":
                assert request.form.get("skipShutdown") == "true", "its system may hang"
                machine.off()
            case "POST", "start":
                machine.on()
            case "POST", "restart":
                machine.restart()
            case "POST", "reimage":
                machine.renew()
            case "DELETE", "":
                machine.leave()
            case _:
                return error(404, "NotFound", "There is no such operation.")
        status = f"{self.server.url}/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute"
        status += "/locations/westeurope/operations/8f9d7c0e-1f0a-4ce0-8b6f-6c1f8c0f7c11"
        return Answer(202, None, {"Location": status, "Azure-AsyncOperation": status})

    def _body(self, path: str, machine: FakeMachine) -> dict[str, Any]:
        codes = ["ProvisioningState/succeeded", *self.codes.get(path, [])]
        if machine.state in CODES:
            codes.append(CODES[machine.state])
        view = {"statuses": [{"code": code, "level": "Info"} for code in codes]}
        properties: dict[str, Any] = {
            "vmId": "b7a098cc-b0b8-46e8-a205-62f301a62a8f",
            "hardwareProfile": {"vmSize": "Standard_D4s_v5"},
            "provisioningState": "Succeeded",
            "instanceView": view,
        }
        if self.names[path]:
            properties["osProfile"] = {
                "computerName": self.names[path],
                "adminUsername": "azureuser",
                "linuxConfiguration": {"disablePasswordAuthentication": True},
            }
        name = path.rpartition("/")[2]
        body: dict[str, Any] = {
            "name": name,
            "id": f"{BASE}/{path}",
            "type": "Microsoft.Compute/virtualMachines",
            "location": "westeurope",
            "properties": properties,
        }
        if path.startswith("virtualmachinescalesets/"):
            return {**body, "name": f"{SET}_{name}", "instanceId": name}
        return body


def error(status: int, code: str, message: str) -> Answer:
    headers = {"Retry-After": "17"} if status == 429 else {}
    return Answer(status, {"error": {"code": code, "message": message}}, headers)
