"""Counts log lines that agents could not use, from the Events in which agents report them.

An agent serves no metrics. It reports a line that begins like a known report and cannot be parsed,
lines that it could not read, and lines above its bound as Events about its Node.
"""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter

from kubenode.runtime.kube.objects import Event

KINDS: Mapping[str, str] = {
    "LogLineNotUnderstood": "not_understood",
    "LogLinesLost": "lost",
    "LogLinesLeftOut": "left_out",
}
"""Reasons of the agent's Events, and the label of each."""


class UnreadLines:
    """Handler of Events about Nodes. After a restart, Events that still exist count once more."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._lines = Counter(
            "kubenode_remedy_unread_log_lines",
            "Number of reports of agents about log lines that they could not use."
            " not_understood: a line that begins like a known report and cannot be parsed;"
            " lost: lines that could not be read; left_out: lines above the agent's bound.",
            ["kind"],
            registry=registry,
        )
        for kind in KINDS.values():
            self._lines.labels(kind)

    def changed(self, key: str, old: Event | None, new: Event | None) -> None:
        """Count the occurrences that the new version of an Event adds."""
        if new is None or new.reason not in KINDS:
            return
        more = _occurrences(new) - (_occurrences(old) if old is not None else 0)
        self._lines.labels(KINDS[new.reason]).inc(max(more, 0))


def _occurrences(event: Event) -> int:
    return max(event.count, event.series.count if event.series is not None else 0, 1)
