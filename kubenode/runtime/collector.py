"""Pauses the garbage collector while objects are built that stay."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collector() -> Iterator[None]:
    """Pause full collections, which would walk all objects and find nothing to free.

    Only for work that ends by itself and makes no cycles. A collector that is off stays off.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
