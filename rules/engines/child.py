"""The child process that runs durable_rules: `python -m rules.engines.child FD`.

Length-prefixed JSON over a private socket pair. It uses the library's raw interface: no host, no
threads, no actions, one fact in memory at a time. Any status that is not 0 (matched) or 1 (nothing
matched) ends the process: what the library holds in memory after an error cannot be trusted. It
dumps no core, and ends when its parent does: by end of file, or, where it hangs in C or is stopped
and reads nothing, by an alarm for each request and by the kernel.
"""

import ctypes
import json
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from rules.engines.ruleset import PROBE, alike, refusal

HEAD = struct.Struct("!I")
MOST_BYTES = 64 * 1024 * 1024
MOST_MEMORY = 2 * 1024**3
"""Bytes of address space: a leak ends this process, not others of the machine. The parent replaces
it far earlier, by the memory that it holds."""
REQUEST_SECONDS = 30
"""Longer than any parent waits: then nobody is there to end a child that hangs."""
_PR_SET_PDEATHSIG = 1


class ProgramRefused(Exception):
    """The program is not loaded; the text says why."""


class LoadedRuleset:
    """One ruleset within the library."""

    def __init__(self, library: Any, name: str, ruleset: dict[str, Any]) -> None:
        self._library = library
        self._texts = [_texts(slot) for slot in ruleset["slots"]]
        rules = {**ruleset["rules"], "probe": PROBE}
        self._handle = library.create_ruleset(name, json.dumps(rules))
        if self._fired('{"k":"probe","id":"e"}') != ["probe"]:
            raise ProgramRefused(f"{name}: the self-test did not fire")

    def outputs(self, letters: str) -> list[str]:
        """`letters` has one of t, f, u for each slot of the ruleset."""
        known = "".join([texts[letter] for texts, letter in zip(self._texts, letters, strict=True)])
        fired = self._fired(f'{{"k":"eval"{known},"id":"e"}}')
        return sorted({name.partition("#")[0] for name in fired}) if fired else fired

    def _fired(self, fact: str) -> list[str]:
        library, handle = self._library, self._handle
        status, offset = library.assert_fact(handle, fact)
        if status == 1:
            return []
        if status != 0:
            raise SystemExit(f"durable_rules answered {status}")
        fired, first = [], library.start_action_for_state(handle, offset)
        message = first and first[1]
        while message:
            fired.append(next(iter(json.loads(message))))
            message = library.complete_and_start_action(handle, offset)
        library.retract_fact(handle, '{"id": "e"}')
        return fired


def _texts(slot: int) -> dict[str, str]:
    """The JSON of both properties of a slot, by its letter in a vector."""
    return {
        letter: f',"t{slot}":{true},"f{slot}":{false}'
        for letter, true, false in (
            ("t", "true", "false"),
            ("f", "false", "true"),
            ("u", "false", "false"),
        )
    }


class EngineService:
    """Rulesets have numbers in the order in which they were loaded."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._rulesets: list[LoadedRuleset] = []

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        match request:
            case {"op": "load", "rulesets": list(rulesets)}:
                return self._load(rulesets)
            case {"op": "eval", "asked": list(queries)}:
                fired = [self._rulesets[number].outputs(letters) for number, letters in queries]
                return {"fired": fired, "rss": resident()}
            case _:
                raise SystemExit("a request that is none")

    def _load(self, rulesets: list[Any]) -> dict[str, Any]:
        if self._rulesets:
            return {"refused": "a program is loaded already: each gets a child of its own"}
        names = [f"s{number}" for number in range(len(rulesets))]
        try:
            if clash := alike(names):
                raise ProgramRefused(f"{clash[0]} and {clash[1]} are one name to durable_rules")
            self._rulesets = [
                self._load_ruleset(name, ruleset)
                for name, ruleset in zip(names, rulesets, strict=True)
            ]
        except ProgramRefused as error:
            return {"refused": str(error)}
        return {"loaded": len(self._rulesets)}

    def _load_ruleset(self, name: str, ruleset: Any) -> LoadedRuleset:
        if why := refusal(ruleset):
            raise ProgramRefused(why)
        return LoadedRuleset(self._library, name, ruleset)


def resident() -> int:
    """Bytes of memory that this process holds; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return 0


def serve(connection: socket.socket, service: EngineService) -> None:
    while (head := _exactly(connection, HEAD.size)) is not None:
        (length,) = HEAD.unpack(head)
        if length > MOST_BYTES:
            raise SystemExit("a request that is too long")
        body = _exactly(connection, length)
        if body is None:
            return
        signal.alarm(REQUEST_SECONDS)  # its default action ends the process, even within C code
        answer = json.dumps(service.answer(json.loads(body)), separators=(",", ":")).encode()
        signal.alarm(0)
        connection.sendall(HEAD.pack(len(answer)) + answer)


def _exactly(connection: socket.socket, length: int) -> bytes | None:
    """None at the end of the stream."""
    parts = bytearray()
    while len(parts) < length:
        part = connection.recv(min(length - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)


def _end_with(parent: int) -> None:
    """Have the kernel kill this process when `parent` ends; Linux only, elsewhere end of file.

    Strictly it is the thread that started us: who lets that thread end starts another child.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != parent:  # it ended before we asked
            raise SystemExit("the parent is gone")


def _bound_memory() -> None:
    """Where the system can; a limit that is stricter already stays."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if sys.platform == "linux" and (hard == resource.RLIM_INFINITY or hard > MOST_MEMORY):
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


def main(arguments: Sequence[str]) -> None:
    _end_with(os.getppid())
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _bound_memory()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's: we end when it does
    with suppress(ConnectionError):  # the parent is gone: nobody is there to be told
        _work(socket.socket(fileno=int(arguments[0])))


def _work(connection: socket.socket) -> None:
    try:
        import durable_rules_engine  # the raw interface, not durable.lang
    except ImportError as error:
        answer = json.dumps({"missing": str(error)}).encode()
        connection.sendall(HEAD.pack(len(answer)) + answer)
        return
    hello = json.dumps({"ready": True}).encode()
    connection.sendall(HEAD.pack(len(hello)) + hello)
    serve(connection, EngineService(durable_rules_engine))


if __name__ == "__main__":
    main(sys.argv[1:])
