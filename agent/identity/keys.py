"""Keys, requests and new certificates, handled in a short-lived child process.

`cryptography` would keep 9 MB of memory in the agent's process, and a certificate is requested only
every few weeks. The child reads its input from standard input and answers on standard output: a key
is in no argument, no variable, and no file except its own.
"""

import asyncio
import json
import sys
from collections.abc import Mapping

from agent.identity import pem
from agent.identity.pem import BadPem

SECONDS = 60.0
"""Seconds for one answer, also on an overloaded host."""
CHILD = (
    "import json, sys; given = json.load(sys.stdin); sys.path[:] = given.pop('path');"
    " from agent.identity import keys; print(json.dumps(keys.made(given)))"
)


class ChildFailed(Exception):
    """No answer from the child. The text is its last line of errors."""


async def request(agent: str, key: bytes = b"") -> tuple[bytes, bytes, str]:
    """Return key, request and fingerprint. `key` is used if it is valid. Raises ChildFailed."""
    answer = await _ask({"do": "request", "agent": agent, "key": key.decode(errors="replace")})
    return answer["key"].encode(), answer["request"].encode(), answer["fingerprint"]


async def check(agent: str, pair: bytes) -> None:
    """Check the pair. Raises BadPem if it is incomplete or not this agent's; ChildFailed."""
    answer = await _ask({"do": "check", "agent": agent, "pair": pair.decode(errors="replace")})
    if answer["bad"]:
        raise BadPem(answer["bad"])


async def _ask(what: Mapping[str, object]) -> dict[str, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-c", CHILD),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(SECONDS):
            given = json.dumps({**what, "path": sys.path}).encode()
            out, trouble = await process.communicate(given)
    except TimeoutError as error:
        raise ChildFailed(f"no answer in {SECONDS:.0f} s") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise ChildFailed(trouble.decode(errors="replace").strip().rpartition("\n")[2])
    answer: dict[str, str] = json.loads(out)
    return answer


def made(given: Mapping[str, str]) -> dict[str, str]:
    """Return the child's answer."""
    if given["do"] == "check":
        try:
            pem.validity(given["pair"].encode(), given["agent"])
        except BadPem as error:
            return {"bad": str(error)}
        return {"bad": ""}
    key = given["key"].encode()
    try:
        fingerprint = pem.fingerprint(key)
    except BadPem:
        key = pem.new_key()
        fingerprint = pem.fingerprint(key)
    signing_request = pem.new_request(key, given["agent"])
    return {"key": key.decode(), "request": signing_request.decode(), "fingerprint": fingerprint}
