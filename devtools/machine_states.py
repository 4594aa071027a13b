"""Writes docs/reference/machine-states.md: the phases of Machines, from the table in the code.

`python -m devtools.machine_states [--check]`
"""

import sys

from devtools import generators
from machine.machine.phases import EDGES, FIRST, Phase

FILE = generators.ROOT / "docs/reference/machine-states.md"
COMMON = (Phase.FAILED, Phase.DELETING)
"""Phases to which nearly all others lead; the text of the page explains them."""

WHEN: dict[tuple[Phase, Phase], str] = {
    (Phase.PENDING, Phase.PROVISIONING): "client token written down",
    (Phase.PROVISIONING, Phase.PROVISIONED): "instance found, providerID written",
    (Phase.PROVISIONED, Phase.INITIALIZING): "agent lives",
    (Phase.IMPORTING, Phase.INITIALIZING): "agent lives, Node Ready",
    (Phase.INITIALIZING, Phase.RUNNING): "Node synced, all components succeeded",
    (Phase.RUNNING, Phase.UPDATING): "a revision not reported yet",
    (Phase.UPDATING, Phase.RUNNING): "all succeeded, or undone",
    (Phase.RUNNING, Phase.DEGRADED): "a component or the Node not well, or the agent silent",
    (Phase.UPDATING, Phase.DEGRADED): "likewise",
    (Phase.RUNNING, Phase.UNREACHABLE): "agent silent, Node not Ready",
    (Phase.UPDATING, Phase.UNREACHABLE): "likewise",
    (Phase.DEGRADED, Phase.UNREACHABLE): "likewise",
    (Phase.DEGRADED, Phase.RUNNING): "well for minReady",
    (Phase.UNREACHABLE, Phase.DEGRADED): "one of the two is back",
    (Phase.UNREACHABLE, Phase.RUNNING): "well for minReady",
    (Phase.FAILED, Phase.IMPORTING): "its host came late, or is imported once more",
}
"""When each transition happens, without those to COMMON."""

PAGE = """# Phases of a Machine

<!-- written by `python -m devtools.machine_states`: do not edit -->

`status.phase` is for people: it is worked out anew from what is seen, at each look, and moves along
these edges, one a look. Programs read the conditions.

```mermaid
stateDiagram-v2
{edges}
```

From every phase a Machine goes to Deleting when it is deleted. To Failed it goes from Provisioning
when its provider refuses for good or createTimeout is over, from Provisioned and Importing when its
host does not come in time, and from every phase with an instance when the provider does not find
that twice, 450 s apart. Only an imported Machine comes back from Failed: its host may come late,
and `kubenode machine import` or `reissue` waits for it anew. Delete any other: its set makes
another.

| from | to | when |
| --- | --- | --- |
{rows}
"""


def page() -> str:
    edges = [(a, b) for a in Phase for b in Phase if b in EDGES[a]]
    shown = [(a, b) for a, b in edges if b not in COMMON]
    lines = [f"    [*] --> {phase}" for phase in FIRST]
    lines += [f"    {a} --> {b}: {WHEN[a, b]}" for a, b in shown]
    lines += [f"    {a} --> {b}" for a, b in edges if b in COMMON]
    lines += [f"    {phase} --> [*]" for phase in Phase if not EDGES[phase]]
    rows = "\n".join(f"| {a} | {b} | {WHEN[a, b]} |" for a, b in shown)
    return PAGE.format(edges="\n".join(lines), rows=rows)


def main(arguments: list[str]) -> int:
    return generators.run({FILE: page()}, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
