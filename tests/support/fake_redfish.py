"""A BMC with a Redfish service, as far as sushy talks to it. Form: DSP0266, ComputerSystem v1."""

import base64
from typing import Any

from support.cloud_server import Answer, CloudServer, Request
from support.fake_machine import FakeMachine
from support.pki import Identity
from support.provider_contract import Trouble

from kubenode.providers.port import PowerState

ROOT = "/redfish/v1"
SYSTEMS = f"{ROOT}/Systems"
SESSIONS = f"{ROOT}/SessionService/Sessions"
POWER = {
    PowerState.ON: "On",
    PowerState.OFF: "Off",
    PowerState.STARTING: "PoweringOn",
    PowerState.STOPPING: "PoweringOff",
}
ALLOWED = ("On", "ForceOff", "GracefulShutdown", "ForceRestart", "PowerCycle", "Nmi")
TROUBLES = {
    Trouble.THROTTLED: (429, "Base.1.8.GeneralError", "Too many requests."),
    Trouble.DENIED: (401, "Base.1.8.NoValidSession", "There is no valid session established."),
    Trouble.BUSY: (
        409,
        "Base.1.8.ResourceInUse",
        "The change to the requested resource failed because the resource is in use.",
    ),
    Trouble.BROKEN: (500, "Base.1.8.InternalError", "The request failed due to an internal error."),
}


class FakeBmc:
    """systems  by ID; `hosts` their host names, "" where the BMC knows none
    power    instead of that of the machine
    """

    def __init__(self, tls: Identity, user: str, password: str) -> None:
        self.systems: dict[str, FakeMachine] = {}
        self.hosts: dict[str, str] = {}
        self.power: str | None = None
        self.allowed: tuple[str, ...] = ALLOWED
        self.trouble: Trouble | None = None
        self.refusal: tuple[int, str, str] | None = None
        """Answered to whatever changes something."""
        self.sessions: set[str] = set()
        self._user, self._password = user, password
        self._basic = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        self.server = CloudServer(self._answer, tls)

    def add(self, system: str, host: str) -> FakeMachine:
        self.systems[system] = machine = FakeMachine()
        self.hosts[system] = host
        return machine

    def _answer(self, request: Request) -> Answer:
        path = request.path.rstrip("/")
        if self.trouble is not None:
            return error(*TROUBLES[self.trouble])
        if path == ROOT:
            return Answer(200, self._root())
        if path == SESSIONS and request.method == "POST":
            return self._log_in(request.json)
        if not self._known(request):
            return error(*TROUBLES[Trouble.DENIED])
        if path.startswith(SESSIONS) and request.method == "DELETE":
            self.sessions.discard(path.rpartition("/")[2])
            return Answer(204)
        if path in (f"{ROOT}/SessionService", SESSIONS):
            return Answer(200, self._session_service(path))
        if path == SYSTEMS:
            return Answer(200, self._collection())
        return self._system(request, path)

    def _known(self, request: Request) -> bool:
        token = request.headers.get("x-auth-token", "")
        return request.headers.get("authorization") == self._basic or token in self.sessions

    def _log_in(self, given: dict[str, str]) -> Answer:
        if (given.get("UserName"), given.get("Password")) != (self._user, self._password):
            return error(*TROUBLES[Trouble.DENIED])
        token = f"session-{len(self.sessions)}"
        self.sessions.add(token)
        body = {"@odata.id": f"{SESSIONS}/{token}", "Id": token, "Name": "Session"}
        return Answer(201, body, {"X-Auth-Token": token, "Location": f"{SESSIONS}/{token}"})

    def _root(self) -> dict[str, Any]:
        return {
            "@odata.id": f"{ROOT}/",
            "@odata.type": "#ServiceRoot.v1_5_0.ServiceRoot",
            "Id": "RootService",
            "Name": "Root Service",
            "RedfishVersion": "1.6.0",
            "UUID": "92384634-2938-2342-8820-489239905423",
            "Systems": {"@odata.id": SYSTEMS},
            "SessionService": {"@odata.id": f"{ROOT}/SessionService"},
            "Links": {"Sessions": {"@odata.id": SESSIONS}},
        }

    def _session_service(self, path: str) -> dict[str, Any]:
        return {
            "@odata.id": path,
            "Id": "SessionService",
            "Name": "Session Service",
            "ServiceEnabled": True,
            "SessionTimeout": 600,
            "Sessions": {"@odata.id": SESSIONS},
        }

    def _collection(self) -> dict[str, Any]:
        return {
            "@odata.id": SYSTEMS,
            "@odata.type": "#ComputerSystemCollection.ComputerSystemCollection",
            "Name": "Computer System Collection",
            "Members@odata.count": len(self.systems),
            "Members": [{"@odata.id": f"{SYSTEMS}/{name}"} for name in self.systems],
        }

    def _system(self, request: Request, path: str) -> Answer:
        name, _, action = path.removeprefix(f"{SYSTEMS}/").partition("/")
        machine = self.systems.get(name)
        if machine is None:
            return error(404, "Base.1.8.ResourceMissingAtURI", f"{path} was not found.")
        if request.method == "GET":
            return Answer(200, self._body(name, machine))
        assert (request.method, action) == ("POST", "Actions/ComputerSystem.Reset")
        if self.refusal is not None:
            return error(*self.refusal)
        match request.json["ResetType"]:
            case "ForceOff":
                machine.off()
            case "On":
                machine.on()
            case "ForceRestart" | "PowerCycle":
                machine.restart()
            case other:
                raise AssertionError(other)
        return Answer(204)

    def _body(self, name: str, machine: FakeMachine) -> dict[str, Any]:
        at = f"{SYSTEMS}/{name}"
        return {
            "@odata.id": at,
            "@odata.type": "#ComputerSystem.v1_10_0.ComputerSystem",
            "Id": name,
            "Name": "System",
            "SystemType": "Physical",
            "Manufacturer": "Contoso",
            "Model": "3500RX",
            "SerialNumber": "437XR1138R2",
            "UUID": "38947555-7742-3448-3784-823347823834",
            "HostName": self.hosts[name],
            "Status": {"State": "Enabled", "Health": "OK"},
            "PowerState": self.power or POWER[machine.state],
            "Actions": {
                "#ComputerSystem.Reset": {
                    "target": f"{at}/Actions/ComputerSystem.Reset",
                    "ResetType@Redfish.AllowableValues": list(self.allowed),
                }
            },
        }


def error(status: int, code: str, message: str) -> Answer:
    told = {"@odata.type": "#Message.v1_1_1.Message", "MessageId": code, "Message": message}
    told["Severity"] = "Critical"
    said = {"code": code, "message": message, "@Message.ExtendedInfo": [told]}
    return Answer(status, {"error": said})
