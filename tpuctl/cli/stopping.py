"""Ending work that goes on for long: the first signal asks for it, the second does not ask.

SIGTERM and Ctrl-C otherwise end a command at once, wherever it is. A loop finishes the step at hand instead,
gives its lock back, and then leaves with the status of the signal.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING

from tpuctl.cli import terminal as terminals
from tpuctl.model.exit_status import ExitStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

_STATUSES = {signal.SIGTERM: ExitStatus.TERMINATED, signal.SIGINT: ExitStatus.INTERRUPTED}


class Stop:
    """Whether to stop; call it as often as is convenient."""

    def __init__(self, on_look: Callable[[], None], tell: Callable[[str], None]) -> None:
        """`on_look` is called at every look, `tell` once after a signal came."""
        self._on_look = on_look
        self._tell = tell
        self._told = False
        self.signal: signal.Signals | None = None

    def __call__(self) -> bool:
        self._on_look()
        if self.signal is not None and not self._told:
            # Told here and not by the handler: that runs in the middle of whatever writes just then.
            self._told = True
            self._tell(f"{self.signal.name}: finishing the step at hand; once more to stop at once")
        return self.signal is not None

    @property
    def status(self) -> ExitStatus | None:
        """The exit status of the signal that came, None if none did."""
        return None if self.signal is None else _STATUSES[self.signal]

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self.signal is None:
            self.signal = signal.Signals(number)
            return
        if number == signal.SIGTERM:
            raise terminals.Terminated
        raise KeyboardInterrupt


@contextlib.contextmanager
def on_signals(on_look: Callable[[], None], tell: Callable[[str], None]) -> Iterator[Stop]:
    """Catch SIGTERM and SIGINT meanwhile; only the main thread can, elsewhere nothing is caught."""
    stop = Stop(on_look, tell)
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, stop._on_signal) for number in _STATUSES}  # noqa: SLF001 - its maker
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
