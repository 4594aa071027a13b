"""Text from outside, bounded and such that it can be searched and written down."""

CLIP = 1024
"""Characters kept of a reason or message: regular expressions read no more."""


def clipped(text: str) -> str:
    """The first CLIP characters of `text`, with question marks for what UTF-8 cannot say."""
    return encodable(text[:CLIP])


def encodable(text: str) -> str:
    """`text` itself, or with question marks for lone surrogates, from bytes that were no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text
