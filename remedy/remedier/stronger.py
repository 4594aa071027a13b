"""Which open jobs a stronger rule would supersede now.

Told by whoever decides on nodes, asked by the jobs. In memory only: after a restart it is known
again as soon as the node was looked at.
"""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Stronger:
    _by_node: dict[str, tuple[str, str]] = field(default_factory=dict)
    _by_job: dict[str, str] = field(default_factory=dict)

    def told(self, node: str, found: tuple[str, str] | None) -> str:
        """`found`: the node's open job and the rule that is stronger; the job to be woken or ""."""
        before = self._by_node.pop(node, None)
        if before is not None:
            self._by_job.pop(before[0], None)
        if found is None:
            return ""
        self._by_node[node] = found
        self._by_job[found[0]] = found[1]
        return found[0] if found != before else ""

    def over(self, job: str) -> str:
        """The rule that would supersede the job, "" for none."""
        return self._by_job.get(job, "")
