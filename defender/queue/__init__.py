"""Who waits for a permit, in which order, who is called next, and when everybody looks again.

Pure memory, rebuilt by those who ask. `defender.queue.calling` is left out here: it judges.
"""

from defender.queue.queue import PermitQueue

__all__ = ["PermitQueue"]
