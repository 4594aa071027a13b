"""Read PNG files."""

import struct


def size_of(png: bytes) -> tuple[int, int]:
    """Width and height in pixels, from the header chunk of a PNG file (RFC 2083, section 4.1.1)."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", png[16:24])
