"""Makes disposable hosts for the provider `local`: what a site's own command would talk to.

    with HostRack(hosts.folder, hosts.boot) as rack:
        LocalInstances(rack.command)

A machine is pending while its host boots and follows its user data, and ending until nothing of the
host is left. Each is made once for its token. Levers: `lose`, `trouble`, `hold`.
"""

import email
import json
import socketserver
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import Message
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from ruamel.yaml import YAML
from support.daemons import StartError, outlives_its_servers
from support.host_claims import HostError
from support.instance_contract import Trouble

from kubenode.runtime.clock import SystemClock

COMMAND = Path(__file__).parents[1] / "hosts" / "machines.py"
AT_A_TIME = 4
TROUBLES = {
    Trouble.DENIED: (77, "login to the rack was refused"),
    Trouble.BUSY: (75, "another one changes the rack"),
    Trouble.BROKEN: (1, "internal error"),
}
NO_ROOM = (73, "the rack is full")
NOT_FOUND, TAKEN, BUSY, BROKEN = 68, 78, 75, 1


class Bootable(Protocol):
    """Of support.hosts.Host."""

    @property
    def address(self) -> str: ...

    def run(self, *argv: str, timeout: float = 60, stdin: str | None = None) -> Any: ...

    def reboot(self) -> None: ...

    def destroy(self) -> None: ...


@dataclass(slots=True)
class Made:
    """state  pending, running, failed or ending; what has ended is forgotten
    asked  operations by their requests
    """

    name: str
    token: str
    cluster: str
    machine: str
    user_data: str
    config: dict[str, Any]
    created_at: str
    state: str = "pending"
    host: Bootable | None = None
    trouble: str = ""
    asked: dict[str, str] = field(default_factory=dict)
    over: threading.Event = field(default_factory=threading.Event)
    """Whether what was begun last has come about."""


class HostRack:
    """folder  of the session: its name is the first part of every machine's
    boot    makes and boots the host of a name
    """

    def __init__(self, folder: Path, boot: Callable[[str], Bootable]) -> None:
        self.folder, self._boot = folder, boot
        self.made: dict[str, Made] = {}
        self.lose = False
        self.trouble: Trouble | None = None
        self._lock = threading.Lock()
        self._silent = threading.Event()
        # What starts a host lives as long as the rack does: hosts end with the thread that began
        # them.
        self._hands = ThreadPoolExecutor(
            AT_A_TIME, thread_name_prefix="rack", initializer=outlives_its_servers
        )

    def __enter__(self) -> Self:
        rack = self

        class Line(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                answer = rack.obey(json.loads(self.rfile.readline()))
                self.wfile.write(f"{json.dumps(answer)}\n".encode())

        class Server(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, request: Any, client_address: Any) -> None:
                """A command that was killed does not read its answer."""

        self._server = Server(str(self.folder / "rack"), Line)
        self._serving = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._serving.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._silent.set()
        self._server.shutdown()
        self._serving.join()
        self._server.server_close()
        (self.folder / "rack").unlink()
        for one in list(self.made.values()):
            self._end(one)
        self._hands.shutdown()

    @property
    def command(self) -> list[str]:
        """For the settings of the provider `local`."""
        return [sys.executable, "-S", "-E", str(COMMAND), str(self.folder)]

    def machine(self, name: str) -> str:
        """As the command calls the machine of this name."""
        return f"{self.folder.name}/{name}"

    def wait(self, seconds: float = 120) -> None:
        """Until all that was begun has come about."""
        for one in list(self.made.values()):
            assert one.over.wait(seconds), f"{one.name} is {one.state} after {seconds:g} s"

    # ---- what is asked

    def obey(self, request: dict[str, Any]) -> dict[str, Any]:
        verb, words = str(request["verb"]), [str(word) for word in request["words"]]
        if self.trouble is Trouble.SILENT:
            self._silent.wait(60)
        if (trouble := self.trouble) in TROUBLES:
            return _no(*TROUBLES[trouble])
        with self._lock:
            match verb:
                case "create":
                    return self._create(words[0], words[1], json.loads(request["given"]))
                case "get":
                    return self._get(words[0])
                case "delete":
                    return self._delete(words[0])
                case "redeploy" | "reimage":
                    return self._operate(verb, words[0], words[1])
                case "list":
                    return _yes([self._shown(one) for one in self.made.values()])
                case _:
                    return _no(64, f"no such verb: {verb}")

    def _create(self, name: str, token: str, wanted: dict[str, Any]) -> dict[str, Any]:
        if self.trouble is Trouble.NO_ROOM:
            return _no(*NO_ROOM)
        found = next((one for one in self.made.values() if one.token == token), None)
        if found is None and name in self.made:
            ending = self.made[name].state == "ending"
            return _no(BUSY if ending else TAKEN, f"{name} is there, of another token")
        if found is not None and found.state == "ending":
            return _no(TAKEN, f"{name} of token {token} is on its way out")
        if found is None:
            now = SystemClock().now().astimezone(UTC)
            found = self.made[name] = Made(
                name,
                token,
                wanted["cluster"],
                wanted["machine"],
                wanted["userData"],
                wanted["config"],
                datetime.isoformat(now),
            )
            self._hands.submit(self._begin, found)
        if self.lose:
            self.lose = False
            return _no(BROKEN, "the line was cut")
        return _yes(self._shown(found))

    def _get(self, machine: str) -> dict[str, Any]:
        found = self._named(machine)
        return _yes(self._shown(found)) if found else _no(NOT_FOUND, f"no machine {machine}")

    def _delete(self, machine: str) -> dict[str, Any]:
        found = self._named(machine)
        if found is None:
            return _no(NOT_FOUND, f"no machine {machine}")
        if found.state != "ending":
            found.state = "ending"
            before = found.over
            found.over = threading.Event()
            self._hands.submit(self._end_after, found, before)
        return _yes("in-progress")

    def _operate(self, verb: str, machine: str, request: str) -> dict[str, Any]:
        found = self._named(machine)
        if found is None:
            return _no(NOT_FOUND, f"no machine {machine}")
        if found.asked.get(request) == verb:
            return _yes("")
        if found.state != "running":
            return _no(BUSY, f"{machine} is {found.state}")
        found.asked[request] = verb
        found.state, found.over = "pending", threading.Event()
        self._hands.submit(self._redeploy if verb == "redeploy" else self._reimage, found)
        return _yes("")

    def _named(self, machine: str) -> Made | None:
        place, _, name = machine.rpartition("/")
        return self.made.get(name) if place == self.folder.name else None

    def _shown(self, one: Made) -> dict[str, Any]:
        return {
            "id": self.machine(one.name),
            "token": one.token,
            "cluster": one.cluster,
            "machine": one.machine,
            "state": one.state,
            "addresses": [one.host.address] if one.host is not None else [],
            "createdAt": one.created_at,
        }

    # ---- what comes about

    def _begin(self, one: Made) -> None:
        def boot() -> None:
            one.host = self._boot(one.name)
            follow(one.host, one.user_data)

        self._bring_up(one, boot)

    def _redeploy(self, one: Made) -> None:
        assert one.host is not None
        self._bring_up(one, one.host.reboot)

    def _reimage(self, one: Made) -> None:
        assert one.host is not None
        one.host.destroy()
        self._begin(one)

    def _bring_up(self, one: Made, how: Callable[[], None]) -> None:
        over, state = one.over, "failed"
        try:
            how()
            state = "running"
        except (HostError, StartError) as error:
            one.trouble = str(error)
        finally:
            with self._lock:
                if one.state == "pending":
                    one.state = state
            over.set()

    def _end_after(self, one: Made, begun: threading.Event) -> None:
        begun.wait()
        self._end(one)

    def _end(self, one: Made) -> None:
        if one.host is not None:
            one.host.destroy()
        with self._lock:
            self.made.pop(one.name, None)
        one.over.set()


def follow(host: Bootable, user_data: str) -> None:
    """What cloud-init would do of it: scripts, and files and commands of a #cloud-config."""
    if user_data.startswith("Content-Type: multipart"):
        for part in email.message_from_string(user_data).walk():
            if not part.is_multipart():
                follow(host, _text(part))
    elif user_data.startswith("#!"):
        _write(host, "/var/lib/user-data", user_data, "0700")
        host.run("/var/lib/user-data", timeout=300)
    elif user_data.startswith("#cloud-config"):
        wanted = YAML(typ="safe", pure=True).load(user_data)
        for file in wanted.get("write_files", ()):
            _write(host, file["path"], file["content"], str(file.get("permissions", "0644")))
        for argv in wanted.get("runcmd", ()):
            host.run(*argv, timeout=300)


def _write(host: Bootable, path: str, text: str, mode: str) -> None:
    """From inside: what lies below /run is not on the host's disk."""
    host.run("install", "-D", "-m", mode, "/dev/stdin", path, stdin=text)


def _text(part: Message) -> str:
    payload = part.get_payload(decode=True)
    assert isinstance(payload, bytes)
    return payload.decode()


def _yes(said: Any) -> dict[str, Any]:
    text = said if isinstance(said, str) else json.dumps(said)
    return {"said": text, "complained": "", "code": 0}


def _no(code: int, words: str) -> dict[str, Any]:
    return {"said": "", "complained": f"{words}\n", "code": code}
