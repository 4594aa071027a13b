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
from typing import Any

from rules.engines.ruleset import PROBE, refusal

HEAD = struct.Struct("!I")
MOST_BYTES = 64 * 1024 * 1024
REQUEST_SECONDS = 10
"""Longer than any parent waits: then nobody is there to end a child that hangs."""
_PR_SET_PDEATHSIG = 1


class Refused(Exception):
    """The program is not loaded; the text says why."""


class Loaded:
    """One ruleset within the library."""

    def __init__(self, library: Any, name: str, ruleset: dict[str, Any]) -> None:
        self._library = library
        self._texts = [(slot, _texts(slot)) for slot in ruleset["slots"]]
        rules = {**ruleset["rules"], "probe": PROBE}
        self._handle = library.create_ruleset(name, json.dumps(rules))
        if self._fired('{"k":"probe","id":"e"}') != ["probe"]:
            raise Refused(f"{name}: the self-test did not fire")

    def outputs(self, vector: str) -> list[str]:
        """`vector` has one of t, f, u for each slot of the program."""
        asked = "".join([texts[vector[slot]] for slot, texts in self._texts])
        return self._fired(f'{{"k":"eval"{asked},"id":"e"}}')

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


class Service:
    def __init__(self, library: Any) -> None:
        self._library = library
        self._strata: list[list[Loaded]] = []

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        match request:
            case {"op": "load", "strata": list(strata)}:
                return self._load(strata)
            case {"op": "eval", "stratum": int(stratum), "vectors": list(vectors)}:
                return {"fired": [self._outputs(stratum, vector) for vector in vectors]}
            case _:
                raise SystemExit("a request that is none")

    def _load(self, strata: list[Any]) -> dict[str, Any]:
        if self._strata:
            return {"refused": "a program is loaded already: each gets a child of its own"}
        try:
            self._strata = [
                [self._one(f"s{i}n{n}", ruleset) for n, ruleset in enumerate(rulesets)]
                for i, rulesets in enumerate(strata)
            ]
        except Refused as error:
            return {"refused": str(error)}
        return {"loaded": sum(map(len, self._strata))}

    def _one(self, name: str, ruleset: Any) -> Loaded:
        if why := refusal(ruleset):
            raise Refused(why)
        return Loaded(self._library, name, ruleset)

    def _outputs(self, stratum: int, vector: str) -> list[str]:
        names = [n for loaded in self._strata[stratum] for n in loaded.outputs(vector)]
        return sorted({name.split("#")[0] for name in names})


def serve(connection: socket.socket, service: Service) -> None:
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


def main(arguments: Sequence[str]) -> None:
    _end_with(os.getppid())
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's: we end when it does
    connection = socket.socket(fileno=int(arguments[0]))
    try:
        import durable_rules_engine  # the raw interface, not durable.lang
    except ImportError as error:
        answer = json.dumps({"missing": str(error)}).encode()
        connection.sendall(HEAD.pack(len(answer)) + answer)
        return
    hello = json.dumps({"ready": True}).encode()
    connection.sendall(HEAD.pack(len(hello)) + hello)
    serve(connection, Service(durable_rules_engine))


if __name__ == "__main__":
    main(sys.argv[1:])
