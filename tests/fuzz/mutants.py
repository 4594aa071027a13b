"""Changed copies of seeds: what a hostile writer makes of an honest message.

Without instrumentation, so that any Python program can be fed. The same seed of `random` gives the
same mutants.
"""

import random
from collections.abc import Callable, Iterator, Sequence

ODD: tuple[bytes, ...] = (
    *(b"null", b"true", b"[]", b"{}", b'""', b"-1", b"0", b"1e999", b"9" * 400, b"-0.0", b"NaN"),
    *(b'"\\u0000"', b'"\\ud800"', b"\xff\xfe", b"\0", b'"' + b"x" * 5000 + b'"'),
    *(b"[" * 1500, b'{"a":' * 1500, b"[" * 1500 + b"]" * 1500),
    *(b'"0001-01-01T00:00:00Z"', b'"9999-12-31T23:59:59Z"', b'"2026-13-45T99:99:99Z"'),
)
MOST_BYTES = 64 * 1024


def mutants(seeds: Sequence[bytes], chance: random.Random) -> Iterator[bytes]:
    """Without end: the seeds first, then copies with one to four changes."""
    yield from seeds
    while True:
        data = chance.choice(seeds)
        for _ in range(chance.randint(1, 4)):
            data = chance.choice(CHANGES)(data, chance, seeds)
        yield data[:MOST_BYTES]


def _flip(data: bytes, chance: random.Random, seeds: Sequence[bytes]) -> bytes:
    if not data:
        return bytes([chance.randrange(256)])
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]


def _cut(data: bytes, chance: random.Random, seeds: Sequence[bytes]) -> bytes:
    first, last = _slice(data, chance)
    return data[:first] + data[last:]


def _double(data: bytes, chance: random.Random, seeds: Sequence[bytes]) -> bytes:
    first, last = _slice(data, chance)
    return data[:last] + data[first:last] * chance.choice((1, 2, 50)) + data[last:]


def _splice(data: bytes, chance: random.Random, seeds: Sequence[bytes]) -> bytes:
    other = chance.choice(seeds)
    return data[: _slice(data, chance)[0]] + other[_slice(other, chance)[0] :]


def _odd(data: bytes, chance: random.Random, seeds: Sequence[bytes]) -> bytes:
    """A JSON value is replaced, where there is one; else bytes are put in anywhere."""
    values = [n for n, byte in enumerate(data) if byte == ord(":")]
    word = chance.choice(ODD)
    if not values:
        at = chance.randint(0, len(data))
        return data[:at] + word + data[at:]
    at = chance.choice(values) + 1
    ends = [end for end in (data.find(b",", at), data.find(b"}", at)) if end >= 0]
    return data[:at] + word + data[min(ends, default=len(data)) :]


def _slice(data: bytes, chance: random.Random) -> tuple[int, int]:
    first = chance.randint(0, len(data))
    return first, min(len(data), first + chance.choice((1, 2, 8, 64)))


Change = Callable[[bytes, random.Random, Sequence[bytes]], bytes]
CHANGES: tuple[Change, ...] = (_flip, _cut, _double, _splice, _odd, _odd)
