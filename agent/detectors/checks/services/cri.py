"""Calls Status of the Kubernetes CRI over a container runtime's socket.

gRPC is HTTP/2 with five bytes before each message, and a request without fields is empty. So one
call needs neither a gRPC library nor a `crictl` process every ten seconds. Sources: RFC 9113
(frames), RFC 7541 (header fields, here all literal), grpc/doc/PROTOCOL-HTTP2.md, kubernetes/cri-api
runtime.v1 (field numbers).
"""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from agent.host.files import OWN_FILES, HostRoot

METHOD = b"/runtime.v1.RuntimeService/Status"
MOST = 1 << 20
"""Bytes of an answer."""
LONGEST_FRAME = 1 << 14
"""Longest frame that a server may send to a client with default settings."""
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY = 0x0, 0x1, 0x3, 0x4, 0x6, 0x7
_END_STREAM, _ACK, _END_HEADERS, _PADDED = 0x1, 0x1, 0x4, 0x8
_NO_MESSAGE = bytes(5)


class NoAnswer(Exception):
    """The call failed; the text says what was tried and what was received."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A condition of the runtime: RuntimeReady, NetworkReady."""

    kind: str
    ok: bool
    why: str = ""


async def status(socket: str, seconds: float, files: HostRoot = OWN_FILES) -> list[Ready]:
    """Return the runtime's conditions. Raises NoAnswer. socket: path of the host."""
    tried = f"Status over {socket}"
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_unix_connection(files.path(socket))
            try:
                writer.write(_PREFACE + _frame(_SETTINGS, 0, 0, b"") + _request())
                await writer.drain()
                message = await _answer(reader, writer)
            finally:
                writer.transport.abort()  # a graceful close could hang too
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
        return ready(message)
    except TimeoutError as error:
        raise NoAnswer(f"{tried}: no answer within {seconds:g} s") from error
    except OSError as error:
        raise NoAnswer(f"{tried}: {error.strerror or error}") from error
    except EOFError as error:
        raise NoAnswer(f"{tried}: it hung up before it had answered") from error
    except ValueError as error:
        raise NoAnswer(f"{tried}: {error}") from error


def ready(message: bytes) -> list[Ready]:
    """Parse StatusResponse.status.conditions. Raises ValueError."""
    conditions = []
    for field, status_ in fields(message):
        for inner, condition in fields(status_) if field == 1 and _is(status_) else ():
            if inner == 1 and _is(condition):
                given = dict(fields(condition))
                texts = [_text(given.get(number)) for number in (3, 4)]
                why = ": ".join(word for word in texts if word)
                conditions.append(Ready(_text(given.get(1)), given.get(2) == 1, why))
    return conditions


def fields(message: bytes | int) -> Iterator[tuple[int, bytes | int]]:
    """Yield numbers and values of a protobuf message's fields. Raises ValueError if it is
    truncated.
    """
    assert isinstance(message, bytes)
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        value: bytes | int
        match key & 7:
            case 0:
                value, at = _varint(message, at)
            case 2:
                length, at = _varint(message, at)
                value, at = message[at : at + length], at + length
            case 1:
                value, at = message[at : at + 8], at + 8
            case 5:
                value, at = message[at : at + 4], at + 4
            case other:
                raise ValueError(f"an answer with the unknown wire type {other}")
        if at > len(message):
            raise ValueError("an answer that is cut off")
        yield key >> 3, value


def _is(value: bytes | int) -> bool:
    return isinstance(value, bytes)


def _text(value: bytes | int | None) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else ""


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(10):
        if at >= len(message):
            break
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at
    raise ValueError("an answer that is cut off")


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    head = len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4)
    return head + payload


def _request() -> bytes:
    def text(value: bytes) -> bytes:
        return bytes((len(value),)) + value

    # Static table: method POST 3, scheme http 6, path 4, authority 1, content-type 31.
    headers = b"\x83\x86" + b"\x04" + text(METHOD) + b"\x01" + text(b"localhost")
    headers += b"\x0f\x10" + text(b"application/grpc") + b"\x00" + text(b"te") + text(b"trailers")
    return _frame(_HEADERS, _END_HEADERS, 1, headers) + _frame(_DATA, _END_STREAM, 1, _NO_MESSAGE)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Return the response's message. Raises ValueError if there is none, as for an error."""
    body = b""
    while True:
        head = await reader.readexactly(9)
        length, kind, flags = int.from_bytes(head[:3]), head[3], head[4]
        stream = int.from_bytes(head[5:]) & 0x7FFFFFFF
        if length > LONGEST_FRAME:
            raise ValueError("no HTTP/2 is spoken there")
        payload = await reader.readexactly(length)
        if kind == _SETTINGS and not flags & _ACK:
            writer.write(_frame(_SETTINGS, _ACK, 0, b""))
        elif kind == _PING and not flags & _ACK:
            writer.write(_frame(_PING, _ACK, 0, payload))
        elif kind in (_RESET, _GOAWAY):
            raise ValueError("the call was refused")
        elif stream == 1 and kind == _DATA:
            body += payload[1 : -payload[0] or None] if flags & _PADDED else payload
            if len(body) > MOST:
                raise ValueError(f"an answer of more than {MOST} bytes")
        if stream == 1 and kind in (_DATA, _HEADERS) and flags & _END_STREAM:
            break
    if len(body) < len(_NO_MESSAGE):
        raise ValueError("the call was answered with an error")
    return body[5 : 5 + int.from_bytes(body[1:5])]
