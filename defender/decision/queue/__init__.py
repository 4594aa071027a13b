"""Queue of holders that wait for a permit: their order, who is called next, when to ask again.

In memory, and rebuilt by those who ask. `defender.decision.queue.selection` is not imported here,
because it imports the verdict.
"""

from defender.decision.queue.queue import PermitQueue

__all__ = ["PermitQueue"]
