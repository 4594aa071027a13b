"""Tasks that hang in the kernel, and zombies.

A task that reads a file is in state D for a moment; one that is in it in consecutive checks hangs.
Limits: Huawei CCE documentation, node-problem-detector (facts): 10 tasks in 3 checks; EKS node
monitoring agent: 20 zombies.
"""

from collections import Counter

from agent.detectors.checks import Finding, Findings
from agent.host.files import HostRoot

HUNG, ZOMBIES = "ProcessD", "ProcessZ"
CONDITIONS = (HUNG, ZOMBIES)
NAMED = 5
Task = tuple[str, str, str]
"""PID, start time and name, which together identify a task."""


class Tasks:
    """Checks tasks. Remembers the tasks in state D of the last check."""

    def __init__(self, hung: int, zombies: int, root: str = "/") -> None:
        self._hung, self._zombies, self._root = hung, zombies, root
        self._before: frozenset[Task] | None = None

    def inspect(self) -> Findings:
        """Check the tasks. Raises OSError if /proc cannot be read."""
        states = read(self._root)
        before, self._before = self._before, frozenset(states.get("D", ()))
        dead, what = states.get("Z", []), "are dead and not waited for"
        findings = {ZOMBIES: judge("ManyZombies", "FewZombies", what, dead, self._zombies)}
        if before is not None:  # one check cannot tell which tasks hang
            stuck = before & self._before
            what = "hang in the kernel"
            findings[HUNG] = judge("ProcessHung", "NoProcessHung", what, stuck, self._hung)
        return findings


def judge(
    bad: str, good: str, what: str, tasks: frozenset[Task] | list[Task], limit: int
) -> Finding:
    if len(tasks) < limit:
        return Finding(False, good, f"fewer than {limit} processes {what}")
    names = Counter(name for _, _, name in tasks).most_common(NAMED)
    summary = ", ".join(f"{count} {name}" for name, count in names)
    return Finding(True, bad, f"{len(tasks)} processes {what}: {summary}; limit {limit}")


def read(root: str) -> dict[str, list[Task]]:
    """Return the processes in state D or Z by state, without those that end meanwhile."""
    by_state: dict[str, list[Task]] = {}
    files = HostRoot(root)
    for entry in files.list_names("proc"):
        if not entry.isdecimal():
            continue
        try:
            with open(files.path(f"proc/{entry}/stat"), "rb") as file:
                text = file.read(4096).decode(errors="replace")
        except OSError:
            continue
        # The name is in brackets and may contain anything, also brackets and blanks.
        head, _, rest = text.rpartition(")")
        fields = rest.split()
        if len(fields) > 19 and fields[0] in ("D", "Z"):
            name = head.partition("(")[2]
            by_state.setdefault(fields[0], []).append((entry, fields[19], name))
    return by_state
