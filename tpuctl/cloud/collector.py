"""A pause of Python's cycle collector while a large list is turned into records.

A hundred thousand nodes are millions of objects of which none is garbage; the collector would look through
them again and again and take longer than the work itself.
"""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """No collection inside; afterwards as before. Memory of cycles made meanwhile is freed later."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
