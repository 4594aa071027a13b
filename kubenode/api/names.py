"""Lists of names in messages. Pure."""

from collections.abc import Iterable


def list_first(names: Iterable[str], most: int, note: str = "") -> str:
    """Return the first names, and how many more there are: `a, b and 3 more`.

    note: follows the number of further names, such as ` (-o json)`
    """
    every = list(names)
    more = f" and {len(every) - most} more{note}" if len(every) > most else ""
    return ", ".join(every[:most]) + more
