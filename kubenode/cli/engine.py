"""Both rule engines, as every program that decides uses them."""

import contextlib
from collections.abc import Iterator

from kubenode.runtime.child import ChildProcess
from rules.diagnose import Diagnoser

CHILD = "rules.engines.child"


@contextlib.contextmanager
def engines() -> Iterator[Diagnoser]:
    """Yield a Diagnoser that runs durable_rules in a child process.

    The child ends with the block.
    """
    diagnoser = Diagnoser(lambda: ChildProcess(CHILD))
    try:
        yield diagnoser
    finally:
        diagnoser.close()
