"""Bounds texts from outside and makes them valid UTF-8."""

CLIP = 1024
"""Characters kept of a reason or message; regular expressions read no more."""


def clipped(text: str) -> str:
    """Return the first CLIP characters, with question marks for what UTF-8 cannot encode."""
    return encodable(text[:CLIP])


def encodable(text: str) -> str:
    """Return `text` with question marks for lone surrogates, which come from invalid UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text
