"""Tables of names, written as text."""


def split_names(text: str) -> frozenset[str]:
    """Return the words of `text`."""
    return frozenset(text.split())
