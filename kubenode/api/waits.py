"""Reasons for which a matching rule or its job waits, as one sentence each."""

from collections.abc import Mapping

WAITS: Mapping[str, str] = {
    "GroupWait": "it waits a moment for a stronger rule to match too (groupWait)",
    "StartupGrace": "the node was created or has booted a short while ago and is left alone"
    " (startupGrace)",
    "Cooldown": "the rule has acted on the node a short while ago (cooldown)",
    "GuardTrue": "a guard of the rule forbids the repair now",
    "EnginesDisagree": "two rule engines came to different answers",
}
"""Sentences by the reason of a hold (`status.hold.reason`)."""


def sentence(reason: str) -> str:
    """Return the sentence with a capital letter and a full stop."""
    text = WAITS[reason]
    return f"{text[0].upper()}{text[1:]}."
