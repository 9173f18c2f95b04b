"""Find a detached simulator by the files it keeps.

The files are described in `tpuctl.sim.process`: `state.json`, and a lock that is held as long as the
simulator lives. That module is not imported here: it brings the whole server, and every command asks.
"""

from __future__ import annotations

import fcntl
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pathlib

ORIGIN = "the running simulator"


def running_context(folder: pathlib.Path) -> dict[str, Any] | None:
    """The values of the context of the simulator that lives in `folder`; None if none does."""
    if not _is_alive(folder):
        return None
    try:
        found = json.loads((folder / "state.json").read_text(encoding="utf-8"))["context"]
    except (OSError, ValueError, KeyError, TypeError):
        # It is starting or ending: for a moment there is no context to work on.
        return None
    return found if isinstance(found, dict) else None


def _is_alive(folder: pathlib.Path) -> bool:
    try:
        with (folder / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
