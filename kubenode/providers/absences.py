"""When an answer "not found" proves that a machine is gone.

An ID that was never present may belong to another account or region, or be a typing error, and a
cloud may lose sight of a machine for a moment. So a machine counts as gone only if this process saw
it present before, and then got "not found" at least twice, `APART_SECONDS` apart.
"""

from collections import OrderedDict

APART_SECONDS = 30.0
MOST_REMEMBERED = 10_000


class Absences:
    def __init__(self) -> None:
        self._missed: OrderedDict[str, float | None] = OrderedDict()
        """Machines that were present, least recently present first. Value: when the machine was
        first missed since then, in monotonic seconds; None if it was not missed.
        """

    def mark_present(self, machine: str) -> None:
        self._missed[machine] = None
        self._missed.move_to_end(machine)
        if len(self._missed) > MOST_REMEMBERED:
            self._missed.popitem(last=False)

    def proven(self, machine: str, now: float) -> bool:
        """Record that `machine` was not found, and return whether that proves that it is gone.

        Call it for each answer "not found". `now` is monotonic, in seconds.
        """
        if machine not in self._missed:
            return False
        first = self._missed[machine]
        if first is None:
            self._missed[machine] = now
            return False
        return now - first >= APART_SECONDS
