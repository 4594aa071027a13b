"""Reads the flag --for."""

from kubenode.api.duration import parse_duration
from kubenode.cli.exits import Exit, Refusal


def read_seconds(text: str | None) -> float | None:
    """Return the length of a run in seconds, None for no limit. Raises Refusal."""
    if text is None:
        return None
    try:
        seconds = parse_duration(text).total_seconds()
    except ValueError as error:
        raise Refusal(f"--for {error}", Exit.USAGE) from error
    if seconds == 0:
        raise Refusal("--for 0s would end before it began: give it 20s or more", Exit.USAGE)
    return seconds
