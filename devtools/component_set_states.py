"""Writes docs/reference/component-set-states.md: the phases of a component set, from their table.

`python -m devtools.component_set_states [--check]`
"""

import sys

from devtools import generators
from kubenode.api.v1alpha1.machinecomponentset import RolloutPhase as P
from machine.componentset.phases import FROM_ALL, WHEN

FILE = generators.ROOT / "docs/reference/component-set-states.md"

PAGE = """# Phases of a component set

<!-- written by `python -m devtools.component_set_states`: do not edit -->

`status.phase` of a MachineComponentSet is computed anew from what is seen; it remembers nothing,
and these are the ways that it usually goes. See [component sets](../component-sets.md).

```mermaid
stateDiagram-v2
{edges}
```

From every phase it goes to {all}, and Paused to every other: when the spec asks for something else,
machines come or go, or the set stops. A batch that is not open is neither inspected nor bakes.

| from | to | when |
| --- | --- | --- |
{rows}
"""


def page() -> str:
    shown = [(a, b) for a in P for b in P if (a, b) in WHEN]
    lines = [f"    [*] --> {P.IDLE}"]
    lines += [f"    {a} --> {b}: {WHEN[a, b]}" for a, b in shown]
    return PAGE.format(
        edges="\n".join(lines),
        all=", ".join(FROM_ALL[:-1]) + f" or {FROM_ALL[-1]}",
        rows="\n".join(f"| {a} | {b} | {WHEN[a, b]} |" for a, b in shown),
    )


def main(arguments: list[str]) -> int:
    return generators.run({FILE: page()}, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
