"""Open jobs that a stronger rule would supersede now.

The remedier writes them, the jobs read them. In memory only: after a restart they are known again
once the node was reconciled.
"""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Stronger:
    """Open jobs and the rules that would supersede them."""

    _by_node: dict[str, tuple[str, str]] = field(default_factory=dict)
    _by_job: dict[str, str] = field(default_factory=dict)

    def store(self, node: str, supersession: tuple[str, str] | None) -> str:
        """Store the node's open job and the stronger rule; return the job to wake, "" for none.
        `supersession` None: there is no stronger rule.
        """
        before = self._by_node.pop(node, None)
        if before is not None:
            self._by_job.pop(before[0], None)
        if supersession is None:
            return ""
        self._by_node[node] = supersession
        self._by_job[supersession[0]] = supersession[1]
        return supersession[0] if supersession != before else ""

    def find_rule(self, job: str) -> str:
        """Return the rule that would supersede the job; "" for none."""
        return self._by_job.get(job, "")
