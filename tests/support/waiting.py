"""Waiting for what real hosts and processes bring about: looked for, and never slept for."""

import time
from collections.abc import Callable
from typing import Any


def until(
    look: Callable[[], Any],
    what: str,
    seconds: float,
    why: Callable[[], object] = lambda: "",
    *,
    every: float = 0.1,
) -> Any:
    """What `look` gives at last. AssertionError with `why` after `seconds`."""
    end = time.monotonic() + seconds
    while not (found := look()):
        late = time.monotonic() > end
        assert not late, f"not within {seconds:g} s: {what}\n{why()}".rstrip()
        time.sleep(every)
    return found
