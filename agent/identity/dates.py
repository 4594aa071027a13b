"""Validity of a certificate, parsed from its DER. Pure functions.

`cryptography` would use 9 MB of memory for the agent's whole life, too much for two dates. Source:
RFC 5280, section 4.1, and X.690 for the lengths.
"""

import re
from base64 import b64decode
from binascii import Error as NotBase64
from datetime import UTC, datetime

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.S)
SEQUENCE, INTEGER, VERSION, UTC_TIME, GENERALIZED_TIME = 0x30, 0x02, 0xA0, 0x17, 0x18
FORM = "%Y%m%d%H%M%SZ"


def dates(pem: bytes) -> tuple[datetime, datetime]:
    """Return begin and end of the first certificate in `pem`. Raises ValueError if there is
    none.
    """
    match = _PEM.search(pem)
    if match is None:
        raise ValueError("no PEM certificate")
    try:
        return _dates(b64decode(b"".join(match[1].split()), validate=True))
    except (IndexError, NotBase64) as error:
        raise ValueError("no DER certificate") from error


def _dates(der: bytes) -> tuple[datetime, datetime]:
    signed, _ = _take(der, SEQUENCE)
    body, _ = _take(signed, SEQUENCE)
    if body[0] == VERSION:
        _, body = _take(body, VERSION)
    for tag in (INTEGER, SEQUENCE, SEQUENCE):  # serial number, algorithm, issuer
        _, body = _take(body, tag)
    validity, _ = _take(body, SEQUENCE)
    begins, rest = _time(validity)
    return begins, _time(rest)[0]


def _time(der: bytes) -> tuple[datetime, bytes]:
    short = der[0] == UTC_TIME
    value, rest = _take(der, UTC_TIME if short else GENERALIZED_TIME)
    text = value.decode("ascii")
    if short:  # two digits of the year: 1950 to 2049
        text = ("19" if text[:2] >= "50" else "20") + text
    return datetime.strptime(text, FORM).replace(tzinfo=UTC), rest


def _take(der: bytes, tag: int) -> tuple[bytes, bytes]:
    """Return the content of the first element, and the rest. Raises ValueError, IndexError."""
    if der[0] != tag:
        raise ValueError(f"tag {der[0]:#x} where {tag:#x} should be")
    length, begin = der[1], 2
    if length & 0x80:
        begin += length & 0x7F
        length = int.from_bytes(der[2:begin])
    if begin + length > len(der):
        raise ValueError("it is cut off")
    return der[begin : begin + length], der[begin + length :]
