"""When "not found" proves that a machine is gone.

An ID that was never found may be of another account, another region or somebody's mistake, and a
cloud may forget a machine for a moment. So it is gone only if it was found before by this process,
and then was not found twice, a while apart.
"""

from collections import OrderedDict

APART_SECONDS = 30.0
MOST_REMEMBERED = 10_000


class Absences:
    def __init__(self) -> None:
        self._missed: OrderedDict[str, float | None] = OrderedDict()
        """Machines that were found, those found longest ago first; when first missed since."""

    def mark_present(self, machine: str) -> None:
        self._missed[machine] = None
        self._missed.move_to_end(machine)
        if len(self._missed) > MOST_REMEMBERED:
            self._missed.popitem(last=False)

    def proven(self, machine: str, now: float) -> bool:
        """To be told each time that it is not found. `now` is monotonic, in seconds."""
        if machine not in self._missed:
            return False
        first = self._missed[machine]
        if first is None:
            self._missed[machine] = now
            return False
        return now - first >= APART_SECONDS
