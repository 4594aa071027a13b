"""Grids of states as SVG paths, one cell for each node, machine or cluster. Pure."""

import math
import re

# Each state has its own shape, so that it can be recognized without colour. A shape is drawn from
# the upper left corner of its cell, which is one unit wide and high. Healthy ones, by far the
# most, are a dashed line for each run of them.
SHAPES = {
    "f": "m.5 0l.5.5-.5.5-.5-.5z",
    "w": "m.05.05h.9v.9h-.9zm.22.22v.46h.46v-.46z",
    "p": "m.5.02l.5.94h-1z",
    "r": "m.5.06a.44.44 0 0 1 0 .88a.44.44 0 0 1 0-.88z",
    "c": "m.08.34h.84v.32h-.84z",
    "u": "m.5.1l.4.44h-.24v.36h-.32v-.36h-.24z",
    "s": "m.5.34a.16.16 0 0 1 0 .32a.16.16 0 0 1 0-.32z",
    "l": "m.36.36h.28v.28h-.28z",
}
HEALTHY = "h"


def draw_states(states: str, wide: int) -> tuple[tuple[str, str], ...]:
    """Return (letter, SVG path) for each letter of `states`, with one unit for each of them."""
    return tuple((letter, _path(letter, states, wide)) for letter in sorted(set(states)))


def columns(nodes: int) -> int:
    """Return the columns of a tile: ten for a usual rack, more for a large one, up to the screen's
    width.
    """
    if nodes <= 40:
        return 10
    return min(50, max(10, 5 * round(math.sqrt(nodes * 2) / 5)))


def _path(letter: str, states: str, wide: int) -> str:
    if letter == HEALTHY:
        return _runs(letter, states, wide)
    shape = SHAPES[letter]
    return "".join(
        f"M{index % wide} {index // wide}{shape}"
        for index, each in enumerate(states)
        if each == letter
    )


def _runs(letter: str, states: str, wide: int) -> str:
    """Return lines with one dash for each node: `stroke-dasharray: .6 .4`, starting .2 into the
    cell.
    """
    segments = []
    for start in range(0, len(states), wide):
        for run in re.finditer(f"{letter}+", states[start : start + wide]):
            segments.append(f"M{run.start()}.2 {start // wide}.5h{run.end() - run.start() - 1}.6")
    return "".join(segments)
