"""The child process that runs durable_rules: `python -m rules.engines.child FD`.

It exchanges length-prefixed JSON over a private socket pair. It uses the library's raw interface
without host, threads and actions, and holds one fact in memory at a time. A status other than 0
(matched) or 1 (nothing matched) ends the process, because the library's memory cannot be trusted
after an error. It dumps no core. It ends with its parent: at the end of the stream, or, if it hangs
in C or is stopped, by an alarm for each request or by the kernel.

Rules are untrusted text that C code reads. So before the first request the process gives up what it
does not need: it opens no file and no socket, starts no process and gains no privilege.
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
"""Bytes of address space, so that a leak ends this process only.

The parent replaces the child far earlier, by its resident memory.
"""
REQUEST_SECONDS = 30
"""Seconds, longer than any parent waits: ends a child that hangs after its parent is gone."""
_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_GIVEN_UP = (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE)
"""New descriptors, new processes (the kernel exempts root), and bytes in files."""


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
        """Return what fires. letters: one of t, f, u for each slot of the ruleset."""
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
    """Return the JSON of both properties of a slot, by its letter in a vector."""
    return {
        letter: f',"t{slot}":{true},"f{slot}":{false}'
        for letter, true, false in (
            ("t", "true", "false"),
            ("f", "false", "true"),
            ("u", "false", "false"),
        )
    }


class EngineService:
    """Answers requests. Rulesets are numbered in the order in which they were loaded.

    statm: descriptor of /proc/self/statm; None if the system has none
    """

    def __init__(self, library: Any, statm: int | None = None) -> None:
        self._library, self._statm = library, statm
        self._rulesets: list[LoadedRuleset] = []

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        match request:
            case {"op": "load", "rulesets": list(rulesets)}:
                return self._load(rulesets)
            case {"op": "eval", "asked": list(queries)}:
                fired = [self._rulesets[number].outputs(letters) for number, letters in queries]
                return {"fired": fired, "rss": resident(self._statm)}
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


def open_statm() -> int | None:
    """Return a descriptor of /proc/self/statm; None if the system has none."""
    try:
        return os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def resident(statm: int | None) -> int:
    """Return the resident memory of this process in bytes; 0 if the system does not tell."""
    if statm is None:
        return 0
    return int(os.pread(statm, 128, 0).split()[1]) * resource.getpagesize()


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
    """Receive exactly `length` bytes; return None at the end of the stream."""
    parts = bytearray()
    while len(parts) < length:
        part = connection.recv(min(length - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)


def _end_with(parent: int) -> None:
    """Have the kernel kill this process when `parent` ends. Linux only; elsewhere the stream ends.

    Precisely, it is killed when the thread that started it ends. A parent that ends that thread
    starts another child.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != parent:  # the parent ended before the call
            raise SystemExit("the parent is gone")


def _bound_memory() -> None:
    """Limit the address space where the system can; a stricter limit stays."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if sys.platform == "linux" and (hard == resource.RLIM_INFINITY or hard > MOST_MEMORY):
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


def give_up_rights() -> None:
    """Give up new descriptors, processes and privileges, for good."""
    for limit in _GIVEN_UP:
        resource.setrlimit(limit, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def main(arguments: Sequence[str]) -> None:
    _end_with(os.getppid())
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _bound_memory()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends this process
    with suppress(ConnectionError):  # the parent is gone
        _work(socket.socket(fileno=int(arguments[0])))


def _work(connection: socket.socket) -> None:
    try:
        import durable_rules_engine  # the raw interface, not durable.lang
    except ImportError as error:
        answer = json.dumps({"missing": str(error)}).encode()
        connection.sendall(HEAD.pack(len(answer)) + answer)
        return
    service = EngineService(durable_rules_engine, open_statm())
    give_up_rights()
    hello = json.dumps({"ready": True}).encode()
    connection.sendall(HEAD.pack(len(hello)) + hello)
    serve(connection, service)


if __name__ == "__main__":
    main(sys.argv[1:])
